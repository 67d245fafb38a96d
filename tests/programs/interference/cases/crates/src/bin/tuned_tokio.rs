//! tokio: tasks that wait for a semaphore of one; repaired, of two.
use std::hint::black_box;
use std::sync::Arc;
use tokio::sync::Semaphore;

#[inline(never)]
fn compute(turns: u64) -> u64 {
    (0..turns).fold(turns | 1, |product, _| black_box(product.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

#[inline(never)]
async fn handle_request(gate: &Semaphore) -> u64 {
    let _permit = gate.acquire().await.unwrap();
    compute(80_000)
}

fn main() {
    let permits = if std::env::args().nth(1).is_some() { 2 } else { 1 };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let gate = Arc::new(Semaphore::new(permits));
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let gate = gate.clone();
                tokio::spawn(async move {
                    for _ in 0..2_000 {
                        handle_request(&gate).await;
                        compute(4_000);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}
