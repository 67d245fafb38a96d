// gateway: each order is checked by a thread of its own; repaired, by the thread that reads it; doubled, a thread checks two orders.
// doubled_gateway [repaired | doubled]
use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

const ORDERS: usize = 24_000;

#[derive(Clone, Debug)]
struct Order {
    number: usize,
    customer: String,
    articles: Vec<(u32, u32)>,
}

#[derive(Debug)]
enum Verdict {
    Accepted(u64),
    Unknown(u32),
    TooMany,
}

struct Prices {
    cents: HashMap<u32, u64>,
}

impl Prices {
    fn new() -> Self {
        let cents = (0..5000u32).map(|article| (article, u64::from(article) * 37 % 9_000 + 99));
        Self { cents: cents.collect() }
    }
}

#[inline(never)]
fn receive_text(number: usize) -> String {
    let mut text = format!("{number}|customer {}", number * 7919 % 4000);
    for line in 0..8 {
        let article = (number * 31 + line * 977) % 5003;
        text.push_str(&format!("|{article}x{}", line % 4 + 1));
    }
    text
}

#[inline(never)]
fn parse_order(text: &str) -> Option<Order> {
    let mut fields = text.split('|');
    let number = fields.next()?.parse().ok()?;
    let customer = fields.next()?.to_owned();
    let article_of = |field: &str| {
        let (article, pieces) = field.split_once('x')?;
        Some((article.parse().ok()?, pieces.parse().ok()?))
    };
    let articles = fields.map(article_of).collect::<Option<Vec<_>>>()?;
    Some(Order { number, customer, articles })
}

#[inline(never)]
fn check_order(order: &Order, prices: &Prices) -> Verdict {
    let mut sum = 0;
    for (article, pieces) in &order.articles {
        match prices.cents.get(article) {
            Some(cents) => sum += cents * u64::from(*pieces),
            None => return Verdict::Unknown(*article),
        }
    }
    if sum > 400_000 {
        return Verdict::TooMany;
    }
    Verdict::Accepted(sum)
}

fn check_orders(orders: &[Order], prices: &Prices) -> Vec<Verdict> {
    orders.iter().map(|order| check_order(order, prices)).collect()
}

#[inline(never)]
fn check_in_thread(orders: Vec<Order>, prices: &Arc<Prices>) -> Vec<Verdict> {
    let prices = Arc::clone(prices);
    thread::spawn(move || check_orders(&orders, &prices)).join().unwrap()
}

#[inline(never)]
fn sign_answer(answer: &str) -> u64 {
    let mut sign = 0xcbf2_9ce4_8422_2325u64;
    for round in 0..220 {
        for byte in answer.bytes() {
            sign = (sign ^ u64::from(byte) ^ round).wrapping_mul(0x100_0000_01b3);
        }
    }
    sign
}

#[inline(never)]
fn write_answer(order: &Order, verdict: &Verdict) -> String {
    let what = match verdict {
        Verdict::Accepted(cents) => format!("accepted, {}.{:02}", cents / 100, cents % 100),
        Verdict::Unknown(article) => format!("article {article} is unknown"),
        Verdict::TooMany => "more than a customer may owe".to_owned(),
    };
    format!("order {} of {}: {what}", order.number, order.customer)
}

fn main() {
    let form = std::env::args().nth(1).unwrap_or_default();
    let at_once = if form == "doubled" { 2 } else { 1 };
    let prices = Arc::new(Prices::new());
    let (mut signs, mut refused) = (0, 0);
    for first in (0..ORDERS).step_by(at_once) {
        let texts = (first..first + at_once).map(receive_text);
        let orders: Vec<Order> = texts.filter_map(|text| parse_order(&text)).collect();
        let verdicts = match form.as_str() {
            "repaired" => check_orders(&orders, &prices),
            _ => check_in_thread(orders.clone(), &prices),
        };
        for (order, verdict) in orders.iter().zip(&verdicts) {
            signs ^= sign_answer(&write_answer(order, verdict));
            refused += usize::from(!matches!(verdict, Verdict::Accepted(_)));
        }
    }
    println!("{refused} refused, sign {signs:x}");
}
