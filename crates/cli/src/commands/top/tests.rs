//! `vitalfew top` without a terminal: the effects of keys, and the drawn screen.

use super::draw::draw_top;
use super::model::{SortColumn, TopModel, TopRequest};
use super::rows::{TopSnapshot, TopView, is_idle_kernel_thread};
use profile::{CallGraph, Collector, Recording, Target};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::sync::Arc;

/// Makes a recording of threads that run and wait.
fn snapshot() -> Arc<TopSnapshot> {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/recordings/blocked.vf"
    );
    let store::Opened::Recording(recording) = store::open_path(file.as_ref()).expect("a recording")
    else {
        panic!("a recording is one file");
    };
    let resolved = results::resolve_all(&recording, &results::RecordingSource::default());
    Arc::new(TopSnapshot {
        recording: Arc::from(recording),
        table: resolved.table,
        before: None,
        is_named: true,
    })
}

fn shown() -> TopModel {
    let mut model = TopModel::new(TopView::Procedures);
    model.take_snapshot(snapshot());
    model
}

fn press(model: &mut TopModel, code: KeyCode) -> Option<TopRequest> {
    model.press(KeyEvent::new(code, KeyModifiers::NONE))
}

fn type_text(model: &mut TopModel, text: &str) {
    for c in text.chars() {
        press(model, KeyCode::Char(c));
    }
}

fn drawn(model: &TopModel, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal
        .draw(|frame| draw_top(model, frame))
        .expect("drawn");
    let buffer = terminal.backend().buffer().clone();
    let line = |y: u16| {
        (0..width)
            .map(|x| buffer[(x, y)].symbol().to_owned())
            .collect()
    };
    (0..height).map(line).collect()
}

#[test]
fn every_view_has_rows_and_headings() {
    assert_eq!(
        TopView::ALL,
        *<TopView as clap::ValueEnum>::value_variants()
    );
    for (key, view) in ('1'..).zip(TopView::ALL) {
        let mut model = shown();
        press(&mut model, KeyCode::Char(key));
        assert_eq!(model.view, view);
        assert!(!model.rows().is_empty(), "{}", view.name());
        let screen = drawn(&model, 80, 24);
        assert!(screen[0].contains(view.name()), "{screen:?}");
        let [first, second, _] = view.headings();
        assert!(
            screen[2].contains(first) && screen[2].contains(second),
            "{screen:?}"
        );
        assert!(!screen[3].trim().is_empty(), "{screen:?}");
    }
}

#[test]
fn kernel_threads_that_wait_for_work_are_left_out() {
    for (stack, is_idle) in [
        ("schedule worker_thread kthread ret_from_fork_asm", true),
        (
            "schedule rcu_gp_fqs_loop rcu_gp_kthread kthread ret_from_fork",
            true,
        ),
        (
            "io_schedule folio_wait_bit_common writeback_sb_inodes wb_workfn process_one_work worker_thread kthread",
            false,
        ),
        (
            "schedule bit_wait_io jbd2_journal_commit_transaction kjournald2 kthread",
            false,
        ),
        (
            "futex_do_wait do_futex do_syscall_64 entry_SYSCALL_64_after_hwframe main",
            false,
        ),
        ("", false),
    ] {
        assert_eq!(is_idle_kernel_thread(stack.split(' ')), is_idle, "{stack}");
    }
}

#[test]
fn every_size_can_be_drawn() {
    let mut model = shown();
    for (width, height) in [(80, 24), (1, 1), (20, 3), (300, 100)] {
        drawn(&model, width, height);
    }
    press(&mut model, KeyCode::Char('?'));
    for (width, height) in [(80, 24), (1, 1), (20, 3)] {
        drawn(&model, width, height);
    }
    let screen = drawn(&model, 80, 24).join("\n");
    assert!(screen.contains("write a recording"), "{screen}");
    // Any key closes it, and does nothing else.
    assert_eq!(press(&mut model, KeyCode::Char('q')), None);
    assert!(!model.shows_help);
}

#[test]
fn a_filter_leaves_what_has_the_text() {
    let mut model = shown();
    let name = model.rows()[0].name.clone();
    press(&mut model, KeyCode::Char('/'));
    type_text(&mut model, &name);
    assert!(model.rows().iter().all(|row| row.name.contains(&name)));
    type_text(&mut model, "qqq");
    assert!(model.rows().is_empty());
    drawn(&model, 80, 24);
    press(&mut model, KeyCode::Esc);
    assert!(model.rows().len() > 1);
    assert_eq!(model.filter, "");
}

#[test]
fn sorting_goes_round_the_columns() {
    let mut model = shown();
    let first: Vec<f64> = model.rows().iter().map(|row| row.numbers[0]).collect();
    assert!(first.is_sorted_by(|a, b| a >= b), "{first:?}");
    press(&mut model, KeyCode::Char('s'));
    assert_eq!(model.sort, SortColumn::Second);
    let second: Vec<f64> = model.rows().iter().map(|row| row.numbers[1]).collect();
    assert!(second.is_sorted_by(|a, b| a >= b), "{second:?}");
    press(&mut model, KeyCode::Char('s'));
    let names: Vec<&str> = model.rows().iter().map(|row| row.name.as_str()).collect();
    assert!(names.is_sorted(), "{names:?}");
    press(&mut model, KeyCode::Char('s'));
    assert_eq!(model.sort, SortColumn::First);
}

#[test]
fn one_process_is_shown_alone_until_escape() {
    let mut model = shown();
    press(&mut model, KeyCode::Enter);
    assert!(
        model.zoom.is_none() && model.note.is_some(),
        "a procedure is of no process"
    );
    press(&mut model, KeyCode::Char('3'));
    let process = model.rows()[0].process.clone().expect("a process");
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.zoom, Some(process.clone()));
    let screen = drawn(&model, 80, 24);
    assert!(screen[1].contains("alone"), "{screen:?}");
    press(&mut model, KeyCode::Char('4'));
    let others =
        |row: &&super::rows::TopRow| row.process.as_ref().is_some_and(|of| of.pid != process.pid);
    assert_eq!(model.rows().iter().find(others), None);
    press(&mut model, KeyCode::Esc);
    assert_eq!(model.zoom, None);
}

/// Samples of a daemon know their process only by name, its threads by their numbers.
#[test]
fn a_process_alone_has_procedures_whether_samples_have_its_number_or_not() {
    let known = snapshot();
    let pid = known.recording.threads[0].pid;
    for number in [None, Some(pid)] {
        let mut recording = (*known.recording).clone();
        for sample in &mut recording.samples {
            sample.pid = number;
        }
        let mut model = TopModel::new(TopView::Processes);
        model.take_snapshot(Arc::new(TopSnapshot {
            recording: Arc::new(recording),
            table: known.table.clone(),
            before: None,
            is_named: true,
        }));
        press(&mut model, KeyCode::Enter);
        assert!(model.zoom.is_some());
        press(&mut model, KeyCode::Char('1'));
        assert!(!model.rows().is_empty(), "{number:?}");
    }
}

#[test]
fn paused_it_stays() {
    let mut model = shown();
    press(&mut model, KeyCode::Char(' '));
    let rows = model.rows().to_vec();
    let empty = Recording::new(
        snapshot().recording.host.clone(),
        Target::Machine,
        Collector::Import,
        CallGraph::None,
    );
    let empty = Arc::new(TopSnapshot {
        recording: Arc::new(empty),
        table: Default::default(),
        before: None,
        is_named: false,
    });
    model.take_snapshot(empty.clone());
    assert_eq!(model.rows(), rows);
    assert!(drawn(&model, 80, 24)[1].contains("paused"));
    press(&mut model, KeyCode::Char(' '));
    model.take_snapshot(empty);
    assert_eq!(model.rows(), []);
    assert!(drawn(&model, 80, 24)[1].contains("more names"));
}

/// This process is no load of the machine.
#[test]
fn a_process_can_be_left_out() {
    let mut recording = Recording::clone(&snapshot().recording);
    let process = recording.threads[0].pid;
    recording.samples[0].pid = Some(process);
    let count = recording.samples.len();
    super::source::leave_out_process(&mut recording, process);
    assert!(recording.samples.len() < count);
    assert!(recording.threads.iter().all(|thread| thread.pid != process));
}

/// Only the samples since the earlier snapshot of a continued recording are shown.
#[test]
fn what_was_counted_before_is_taken_off() {
    let before = snapshot();
    let mut model = TopModel::new(TopView::Procedures);
    model.take_snapshot(Arc::new(TopSnapshot {
        recording: before.recording.clone(),
        table: before.table.clone(),
        before: Some(before),
        is_named: true,
    }));
    assert_eq!(model.rows(), []);
}

#[test]
fn keys_that_end_and_write_are_passed_on() {
    let mut model = shown();
    assert_eq!(
        press(&mut model, KeyCode::Char('q')),
        Some(TopRequest::Quit)
    );
    assert_eq!(
        press(&mut model, KeyCode::Char('w')),
        Some(TopRequest::WriteRecording)
    );
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(model.press(control_c), Some(TopRequest::Quit));
    // While a filter is typed, letters are letters.
    press(&mut model, KeyCode::Char('/'));
    assert_eq!(press(&mut model, KeyCode::Char('q')), None);
    assert_eq!(model.press(control_c), Some(TopRequest::Quit));
}

#[test]
fn the_selected_row_stays_among_the_rows() {
    let mut model = shown();
    let last = model.rows().len() - 1;
    for (code, at) in [
        (KeyCode::Up, 0),
        (KeyCode::End, last),
        (KeyCode::Down, last),
        (KeyCode::PageDown, last),
        (KeyCode::Home, 0),
    ] {
        press(&mut model, code);
        assert_eq!(model.selected, at, "{code:?}");
    }
}

/// Names of other programs do not control the terminal.
#[test]
fn hostile_names_are_cleaned() {
    let row = super::rows::TopRow {
        name: "evil\u{1b}[31m\u{202e}txt".to_owned(),
        detail: "\u{7}".to_owned(),
        depth: 90,
        numbers: [1.0; 2],
        process: None,
    };
    let texts = super::draw::texts_of(&row, 60, 10);
    assert!(
        !texts
            .iter()
            .any(|text| text.contains(['\u{1b}', '\u{202e}', '\u{7}']))
    );
    assert!(texts[0].chars().count() <= 60, "{texts:?}");
}
