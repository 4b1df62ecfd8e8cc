const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];

function pad(value: number, width = 2, fill = "0"): string {
  return String(value).padStart(width, fill);
}

function dayOfYear(date: Date): number {
  return Math.round((Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) - Date.UTC(date.getFullYear(), 0, 1)) / 86_400_000) + 1;
}

const DIRECTIVES: Readonly<Record<string, (date: Date) => string>> = {
  A: (date) => DAYS[date.getDay()]!,
  a: (date) => DAYS[date.getDay()]!.slice(0, 3),
  B: (date) => MONTHS[date.getMonth()]!,
  b: (date) => MONTHS[date.getMonth()]!.slice(0, 3),
  d: (date) => pad(date.getDate()),
  e: (date) => pad(date.getDate(), 2, " "),
  F: (date) => strftime(date, "%Y-%m-%d"),
  H: (date) => pad(date.getHours()),
  I: (date) => pad((date.getHours() + 11) % 12 + 1),
  j: (date) => pad(dayOfYear(date), 3),
  M: (date) => pad(date.getMinutes()),
  m: (date) => pad(date.getMonth() + 1),
  p: (date) => date.getHours() < 12 ? "AM" : "PM",
  S: (date) => pad(date.getSeconds()),
  T: (date) => strftime(date, "%H:%M:%S"),
  u: (date) => String(date.getDay() || 7),
  w: (date) => String(date.getDay()),
  Y: (date) => String(date.getFullYear()),
  y: (date) => pad(date.getFullYear() % 100),
  "%": () => "%",
};

/**
 * Python's `strftime` in English and local time, whatever the machine's language: models were trained with English dates. `%-d` leaves the padding
 * out. Unknown directives stay as they are.
 */
export function strftime(date: Date, format: string): string {
  return format.replace(/%(-?)([A-Za-z%])/g, (directive, minus: string, letter: string) => {
    if (!Object.hasOwn(DIRECTIVES, letter)) return directive;
    const text = DIRECTIVES[letter]!(date);
    return minus === "" ? text : text.replace(/^[0 ]+(?=.)/, "");
  });
}
