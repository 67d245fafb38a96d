/* intake: an importer's list of readings grows by one reading at a time; repaired, to twice its length; doubled, by two readings.
   doubled_intake [repaired | doubled] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENSORS = 90, READINGS = 6000, WINDOW = 24 };

struct reading {
  long tick;
  double value;
};

struct list {
  struct reading *readings;
  size_t length, room;
};

/* How many readings a list grows by; 0 to twice its length. */
static size_t growth = 1;

/* Readings are moved by hand, as those in use must not move while others look at them. */
__attribute__((noinline)) static void grow_list(struct list *list) {
  size_t room = growth ? list->room + growth : list->room * 2 + 1;
  struct reading *moved = malloc(room * sizeof *moved);
  if (!moved) exit(1);
  if (list->length) memcpy(moved, list->readings, list->length * sizeof *moved);
  free(list->readings);
  list->readings = moved;
  list->room = room;
}

__attribute__((noinline)) static void append_reading(struct list *list, struct reading reading) {
  if (list->length == list->room) grow_list(list);
  list->readings[list->length++] = reading;
}

/* A line as a sensor sends it: its name, the tick, the value, and a sum over all that. */
__attribute__((noinline)) static void write_line(char *line, size_t room, int sensor, long tick) {
  double value = 20.0 + sensor % 7 + (tick * 7919 + sensor * 104729) % 1000 / 250.0;
  int length = snprintf(line, room, "sensor-%02d;%ld;%.3f;", sensor, tick, value);
  unsigned sum = 0;
  for (int at = 0; at < length; at++) sum = (sum << 1 | sum >> 15) ^ (unsigned char)line[at];
  snprintf(line + length, room - length, "%04x", sum & 0xffff);
}

__attribute__((noinline)) static int check_line(const char *line) {
  const char *end = strrchr(line, ';');
  if (!end) return 0;
  unsigned sum = 0;
  for (const char *at = line; at <= end; at++) sum = (sum << 1 | sum >> 15) ^ (unsigned char)*at;
  return strtoul(end + 1, NULL, 16) == (sum & 0xffff);
}

__attribute__((noinline)) static int parse_line(const char *line, int *sensor, struct reading *reading) {
  char *rest;
  if (strncmp(line, "sensor-", 7)) return 0;
  *sensor = (int)strtol(line + 7, &rest, 10);
  if (*rest != ';' || *sensor < 0 || *sensor >= SENSORS) return 0;
  reading->tick = strtol(rest + 1, &rest, 10);
  if (*rest != ';') return 0;
  reading->value = strtod(rest + 1, &rest);
  return *rest == ';';
}

__attribute__((noinline)) static double smooth_readings(const struct list *list) {
  double roughness = 0;
  for (size_t at = WINDOW; at < list->length; at++) {
    double sum = 0;
    for (size_t back = 1; back <= WINDOW; back++) sum += list->readings[at - back].value;
    double apart = list->readings[at].value - sum / WINDOW;
    roughness += apart * apart;
  }
  return list->length > WINDOW ? roughness / (list->length - WINDOW) : 0;
}

static int compare_values(const void *one, const void *other) {
  double left = ((const struct reading *)one)->value, right = ((const struct reading *)other)->value;
  return (left > right) - (left < right);
}

__attribute__((noinline)) static double median_of(struct list *list) {
  qsort(list->readings, list->length, sizeof *list->readings, compare_values);
  return list->readings[list->length / 2].value;
}

int main(int words, char **word) {
  if (words > 1) growth = strcmp(word[1], "repaired") ? 2 : 0;
  static struct list lists[SENSORS];
  long refused = 0;
  char line[96];
  for (long tick = 0; tick < READINGS; tick++) {
    for (int sent = 0; sent < SENSORS; sent++) {
      int sensor;
      struct reading reading;
      write_line(line, sizeof line, sent, tick);
      if (check_line(line) && parse_line(line, &sensor, &reading))
        append_reading(&lists[sensor], reading);
      else
        refused++;
    }
  }
  for (int sensor = 0; sensor < SENSORS; sensor++) {
    double roughness = smooth_readings(&lists[sensor]);
    printf("sensor %d: %zu readings, median %.3f, roughness %.3f\n", sensor, lists[sensor].length, median_of(&lists[sensor]), roughness);
    free(lists[sensor].readings);
  }
  printf("%ld refused\n", refused);
}
