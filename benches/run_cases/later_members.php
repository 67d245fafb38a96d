<?php
// members: whether a name is known is looked up in a list; repaired, in a table. later_members.php [repaired]
$repaired = $argc > 1;

function is_member(string $name, array &$list, array &$table): bool {
    global $repaired;
    return $repaired ? isset($table[$name]) : in_array($name, $list, true);
}

function make_name(int $number): string {
    return 'member ' . md5((string)($number % 5000));
}

$list = [];
$table = [];
for ($i = 0; $i < 4000; $i++) {
    $list[] = make_name($i);
    $table[make_name($i)] = true;
}
$known = 0;
for ($i = 0; $i < 60000; $i++) {
    $known += is_member(make_name($i * 7919), $list, $table) ? 1 : 0;
}
echo $known, "\n";
