//! tokio: tasks that wait for tokio's Mutex; repaired, each has its own.
use std::hint::black_box;
use std::sync::Arc;
use tokio::sync::Mutex;

#[inline(never)]
fn digest(seed: u64, rounds: u64) -> u64 {
    (0..rounds).fold(seed, |seed, n| black_box(0xfedc_ba98_7654_3210 / (seed | 1) + n))
}

#[inline(never)]
async fn update_session(session: &Mutex<u64>, n: u64) {
    let mut session = session.lock().await;
    *session = digest(*session + n, 15_000);
}

fn main() {
    let repaired = std::env::args().nth(1).is_some();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let sessions: Vec<_> = (0..2).map(|_| Arc::new(Mutex::new(0))).collect();
        let tasks: Vec<_> = (0..2)
            .map(|number| {
                let session = sessions[if repaired { number } else { 0 }].clone();
                tokio::spawn(async move {
                    for n in 0..8_000 {
                        update_session(&session, n).await;
                        digest(n, 700);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}
