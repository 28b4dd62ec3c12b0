#!/bin/sh
# Starts the bot with the options of the add-on as its environment. They are for root to read, so
# they are read before the bot's own user goes on.
set -eu
data=${DATA:-/data}
OPTIONS=$(cat "$data/options.json")
export OPTIONS
mkdir -p "$data/parley"
if [ "$(id -u)" = 0 ]; then
    chown 10001:10001 "$data/parley"
    set -- setpriv --reuid=10001 --regid=10001 --clear-groups --no-new-privs
fi
exec "$@" python -c '
import json, os, sys
names = {"web_token": "PARLEY_WEB_TOKEN"}
options = json.loads(os.environ.pop("OPTIONS"))
for name, value in options.items():
    if value:
        os.environ[names.get(name, name.upper())] = str(value)
os.execvp("parley", ["parley", *sys.argv[1:]])
' --config /parley/config.json --data "$data/parley" --web
