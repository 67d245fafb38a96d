// agenda: each appointment is put into its place in a list at once; repaired, the list is ordered at the end. newest_agenda.js [repaired]
const repaired = process.argv.length > 2;

class Agenda {
  #appointments = [];

  insertSorted(appointment) {
    if (repaired) {
      this.#appointments.push(appointment);
      return;
    }
    let at = this.#appointments.length;
    while (at > 0 && this.#appointments[at - 1].begin > appointment.begin) at--;
    this.#appointments.splice(at, 0, appointment);
  }

  first() {
    if (repaired) this.#appointments.sort((one, other) => one.begin - other.begin);
    return this.#appointments[0];
  }
}

function makeAppointment(number) {
  let begin = number;
  for (let i = 0; i < 500; i++) begin = (begin * 1103515245 + 12345 + i) % 2147483647;
  return { begin, title: `appointment ${number}` };
}

const agenda = new Agenda();
for (let number = 0; number < 30000; number++) agenda.insertSorted(makeAppointment(number));
console.log(agenda.first().title);
