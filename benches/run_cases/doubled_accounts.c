/* accounts: each day's due bills are sought in wide records; repaired, in an array of their days; doubled, those of two days at once.
   doubled_accounts [repaired | doubled] */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACCOUNTS = 400000, DAYS = 360, LETTER = 700 };

struct account {
  char name[48], street[64], town[40];
  int64_t balance, limit, paid;
  uint32_t number, due_day, reminders, region;
  char notes[64];
};

static struct account *accounts;
/* The same days, side by side. */
static uint32_t *due_days;
static uint32_t found[ACCOUNTS];
static int64_t owed_by_region[16];

static void open_accounts(void) {
  accounts = calloc(ACCOUNTS, sizeof *accounts);
  due_days = calloc(ACCOUNTS, sizeof *due_days);
  if (!accounts || !due_days) exit(1);
  for (uint32_t at = 0; at < ACCOUNTS; at++) {
    struct account *account = &accounts[at];
    uint32_t seed = at * 2654435761u;
    memcpy(account->name, "Customer", 8);
    memcpy(account->street, "High Street", 11);
    memcpy(account->town, seed & 1 ? "Newport" : "Oldham", 6);
    account->number = at;
    account->balance = -(int64_t)(seed >> 8 & 0xffff) - 100;
    account->limit = 5000 + (seed >> 5 & 0xfff);
    account->region = seed >> 20 & 15;
    account->due_day = due_days[at] = seed % 100 ? DAYS + 1 + seed % 90 : (seed >> 9) % DAYS;
  }
}

/* Of all accounts, those that are due in some days from this one on. */
__attribute__((noinline)) static uint32_t find_due(uint32_t day, uint32_t days) {
  uint32_t count = 0;
  for (uint32_t at = 0; at < ACCOUNTS; at++)
    if (accounts[at].due_day - day < days) found[count++] = at;
  return count;
}

__attribute__((noinline)) static uint32_t find_due_in_days(uint32_t day) {
  uint32_t count = 0;
  for (uint32_t at = 0; at < ACCOUNTS; at++)
    if (due_days[at] == day) found[count++] = at;
  return count;
}

__attribute__((noinline)) static int64_t interest_of(const struct account *account, uint32_t days) {
  int64_t owed = -account->balance * 1000;
  for (uint32_t day = 0; day < days; day++) owed += owed / (36500 / 9) + (owed > account->limit * 1000);
  return owed / 1000;
}

__attribute__((noinline)) static size_t write_letter(char *letter, const struct account *account, int64_t owed) {
  int length = snprintf(letter, LETTER, "%s %u\n%s\n%s\n\nYou owe %lld.%02lld.\n", account->name, account->number, account->street,
                        account->town, (long long)owed / 100, (long long)owed % 100);
  for (uint32_t line = 0; line < 8 && length < LETTER - 60; line++)
    length += snprintf(letter + length, LETTER - length, "%2u. in the course of %u days: %lld\n", line + 1, 30 * (line + 1),
                       (long long)interest_of(account, 30 * (line + 1)));
  return (size_t)length;
}

__attribute__((noinline)) static uint64_t seal_letter(const char *letter, size_t length) {
  uint64_t seal = 1469598103934665603u;
  for (int round = 0; round < 140; round++)
    for (size_t at = 0; at < length; at++) seal = (seal ^ (unsigned char)letter[at]) * 1099511628211u;
  return seal;
}

__attribute__((noinline)) static void book_reminder(struct account *account, int64_t owed) {
  account->reminders++;
  account->balance = -owed;
  owed_by_region[account->region] += owed;
  snprintf(account->notes, sizeof account->notes, "reminded of %lld", (long long)owed);
}

int main(int words, char **word) {
  const int repaired = words > 1 && !strcmp(word[1], "repaired");
  const uint32_t days = words > 1 && !repaired ? 2 : 1;
  open_accounts();
  uint64_t seals = 0;
  long letters = 0;
  char letter[LETTER];
  for (uint32_t day = 0; day < DAYS; day += days) {
    uint32_t count = repaired ? find_due_in_days(day) : find_due(day, days);
    for (uint32_t at = 0; at < count; at++) {
      struct account *account = &accounts[found[at]];
      int64_t owed = interest_of(account, 30);
      seals ^= seal_letter(letter, write_letter(letter, account, owed));
      book_reminder(account, owed);
      letters++;
    }
  }
  for (int region = 0; region < 16; region++) printf("region %d: %lld\n", region, (long long)owed_by_region[region]);
  printf("%ld letters, seal %llx\n", letters, (unsigned long long)seals);
}
