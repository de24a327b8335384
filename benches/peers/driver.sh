#!/bin/sh
# Builds the driver of a library below a folder, or runs it from there:
#
#     driver.sh build redisson /folder
#     driver.sh run redisson /folder 127.0.0.1:6379
set -eu
step=$1 name=$2 out=$3
cd "$(dirname "$0")/$name"

# Installs packages unless those of this very list are there.
packages() {
    list=$1
    shift
    cmp -s "$list" "$out/installed" && return
    rm -f "$out/installed"
    "$@"
    cp "$list" "$out/installed"
}

case $step-$name in
build-redisson)
    mvn --quiet --batch-mode -Dout="$out" process-classes
    ;;
run-redisson)
    java=${JAVA_HOME:+$JAVA_HOME/bin/}java
    exec "$java" -Xmx512m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
        -classpath "$out/classes:$(cat "$out/dependencies")" peer.Driver "$4"
    ;;
build-redsync | build-rueidislock)
    go build -trimpath -o "$out/driver" .
    ;;
run-redsync | run-rueidislock)
    exec "$out/driver" "$4"
    ;;
build-node-redlock)
    cp package.json package-lock.json driver.js "$out"
    packages package-lock.json npm --prefix "$out" ci --no-audit --no-fund
    ;;
run-node-redlock)
    exec node "$out/driver.js" "$4"
    ;;
build-redis-py)
    packages requirements.txt python3 -m pip install --quiet --upgrade --target "$out/packages" --requirement requirements.txt
    ;;
run-redis-py)
    PYTHONPATH=$out/packages exec python3 driver.py "$4"
    ;;
esac
