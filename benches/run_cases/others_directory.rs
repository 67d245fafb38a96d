// directory: a telephone directory is put in order and set in columns. directory [repaired]
use std::collections::HashMap;
use std::env;

struct Person {
    surname: String,
    given: String,
    street: u32,
    number: u64,
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

const STARTS: [&str; 12] = ["Mül", "Schr", "von Ber", "O'Ne", "Gar", "de la Cr", "Ös", "Hâr", "Mc Don", "Fer", "Ñu", "Kow"];
const ENDS: [&str; 10] = ["ler", "öder", "gmann", "il", "cía", "uz", "terreich", "mann", "ald", "alski"];
const GIVEN: [&str; 8] = ["Zoë", "José", "Anna", "Jürgen", "Chloé", "Bob", "Søren", "Åsa"];

fn subscribers(count: usize) -> Vec<Person> {
    let mut r = Random(88172645463325252);
    (0..count)
        .map(|_| Person {
            surname: format!(
                "{}{}{}",
                STARTS[r.below(12) as usize],
                ENDS[r.below(10) as usize],
                ENDS[r.below(10) as usize]
            ),
            given: format!("{} {}.", GIVEN[r.below(8) as usize], (b'A' + r.below(26) as u8) as char),
            street: r.below(9000) as u32,
            number: r.below(90_000_000),
        })
        .collect()
}

/// The form of a name that the alphabet orders: without marks, spaces and capitals.
fn collation_key(p: &Person) -> String {
    let mut key = String::new();
    for c in p.surname.chars().chain(" ".chars()).chain(p.given.chars()) {
        match c {
            'ä' | 'Ä' | 'Å' | 'å' | 'â' => key.push('a'),
            'ö' | 'Ö' | 'ø' => key.push('o'),
            'ü' | 'Ü' => key.push('u'),
            'é' | 'ë' => key.push('e'),
            'í' => key.push('i'),
            'ñ' | 'Ñ' => key.push('n'),
            '\'' | '.' => {}
            other => key.extend(other.to_lowercase()),
        }
    }
    key
}

fn put_in_order(people: &mut [Person], repaired: bool) {
    if repaired {
        people.sort_by_cached_key(collation_key);
    } else {
        people.sort_by_key(collation_key);
    }
}

fn dotted(left: &str, right: &str, width: usize) -> String {
    let used = left.chars().count() + right.chars().count();
    let mut line = String::from(left);
    for _ in used..width.max(used + 2) {
        line.push('.');
    }
    line.push_str(right);
    line
}

fn set_page(people: &[Person]) -> Vec<String> {
    let lines: Vec<String> = people
        .iter()
        .map(|p| {
            let name = format!("{}, {}, {} St", p.surname, p.given, p.street);
            dotted(&name, &format!("{:08}", p.number), 60)
        })
        .collect();
    let half = (lines.len() + 1) / 2;
    (0..half)
        .map(|i| format!("{} | {}", lines[i], lines.get(i + half).map_or("", |l| l.as_str())))
        .collect()
}

fn checksum(page: &[String], mut sum: u64) -> u64 {
    for b in page.iter().flat_map(|l| l.bytes()) {
        sum = (sum ^ b as u64).wrapping_mul(1099511628211);
    }
    sum
}

fn by_street(people: &[Person]) -> usize {
    let mut streets: HashMap<u32, Vec<&str>> = HashMap::new();
    for p in people {
        streets.entry(p.street).or_default().push(&p.surname);
    }
    streets.values().map(|names| names.len()).max().unwrap_or(0)
}

fn main() {
    let repaired = env::args().nth(1).as_deref() == Some("repaired");
    let (mut sum, mut pages, mut busiest) = (14695981039346656037, 0, 0);
    let mut people = subscribers(200_000);
    put_in_order(&mut people, repaired);
    for lines in [120, 160] {
        for page in people.chunks(lines) {
            sum = checksum(&set_page(page), sum);
            pages += 1;
        }
    }
    busiest = busiest.max(by_street(&people));
    println!("{} pages, busiest street {}, {:016x}", pages, busiest, sum);
}
