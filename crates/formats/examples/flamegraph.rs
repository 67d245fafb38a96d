//! Turns folded stacks on standard input into a flame graph on standard output. It made the
//! README's picture from `vitalfew export --format folded`.

use inferno::flamegraph::{Options, from_reader};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::default();
    options.title = std::env::args().nth(1).unwrap_or_default();
    options.count_name = "samples".to_owned();
    options.min_width = 0.3;
    options.no_javascript = true;
    options.image_width = Some(1000);
    from_reader(&mut options, std::io::stdin(), std::io::stdout())?;
    Ok(())
}
