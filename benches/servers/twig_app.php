<?php
// Requests to three routes, one after the other, for argv[1] seconds: a Twig template, sorted JSON, many small documents. EXCIMER: where the folded stacks of that extension go.
require '/usr/share/php/Twig/autoload.php';

$data = array_map(fn($i) => ['name' => "item $i", 'price' => $i * 1.25], range(0, 199));
$twig = new \Twig\Environment(new \Twig\Loader\ArrayLoader(
    ['page' => '<ul>{% for x in items %}<li>{{ x.name|upper }} {{ x.price }}</li>{% endfor %}</ul>']));

function page($twig, $data) { return $twig->render('page', ['items' => $data]); }
function listed($data) {
    usort($data, fn($a, $b) => $b['price'] <=> $a['price']);
    return json_encode($data);
}
function count_documents($data) { return array_sum(array_map(fn($x) => strlen(json_encode($x)), $data)); }

if (getenv('EXCIMER')) {
    $profiler = new ExcimerProfiler();
    $profiler->setEventType(EXCIMER_CPU);
    $profiler->setPeriod(0.004);
    $profiler->start();
}
$end = microtime(true) + (float) $argv[1];
$served = 0;
for (; microtime(true) < $end; $served++) {
    match ($served % 3) { 0 => page($twig, $data), 1 => listed($data), 2 => count_documents($data) };
}
if (getenv('EXCIMER')) {
    $profiler->stop();
    file_put_contents(getenv('EXCIMER'), $profiler->getLog()->formatCollapsed());
}
echo "$served requests\n";
