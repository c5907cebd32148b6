<?php
// As node.js beside this file, by phpredis or Predis: redisphp.php PORT LIBRARY OPTIONS COMMAND.
[, $port, $library, , $command] = $argv;
if ($library == 'phpredis') {
    $c = new Redis();
    $c->connect('127.0.0.1', (int) $port);
} else {
    require 'Predis/autoload.php';
    $c = new Predis\Client(['port' => (int) $port]);
}
$seen = [];
for ($i = 0; $i < 2000; $i++) {
    if ($command == 'MULTI') {
        $id = $library == 'phpredis' ? $c->multi()->incr('snowflake')->exec()[0]
            : $c->transaction(fn ($tx) => $tx->incr('snowflake'))[0];
    } else {
        $id = $command == 'INCR' ? $c->incr('snowflake') : $c->lpop('snowflake');
    }
    $seen[(string) $id] = true;
}
echo json_encode(['type' => gettype($id), 'distinct' => count($seen)]), "\n";
