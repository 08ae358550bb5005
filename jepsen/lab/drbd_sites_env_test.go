package lab_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// sites drives DRBD above thin volumes in two guests, A and B, with its own tools: several resources at once, with the
// options that executor/drbd writes and a fence-peer handler whose verdicts the test gives.
type sites struct {
	*testing.T
	l *lab.Lab
}

const siteA, siteB = 1, 2

func newSites(t *testing.T) sites {
	l := lab.New(t, lab.Config{Guests: 2, NoHoldfast: true, Disks: []int64{900 << 20}})
	l.MustBoot(t)
	s := sites{t, l}
	for n := siteA; n <= siteB; n++ {
		for path, text := range map[string]string{"/lab/sites.sh": sitesScript, "/lab/handler": handlerScript} {
			require.NoError(t, l.Guest(n).Put(t.Context(), path, []byte(text), 0o755))
		}
		s.on(n, "vgcreate -q vg /dev/ubdc; lvcreate -q -L 600M --poolmetadatasize 8M -T vg/pool --zero y --errorwhenfull y")
	}
	return s
}

// on runs a script with the functions of sitesScript, each of whose commands must succeed.
func (s sites) on(n int, script string) string {
	s.Helper()
	return strings.TrimSpace(s.l.Guest(n).MustExec(s, fmt.Sprintf("N=%d A=%s B=%s; . /lab/sites.sh; set -e; %s",
		n, s.l.IP(lab.Replication, siteA), s.l.IP(lab.Replication, siteB), script)))
}

// both does the same in both guests.
func (s sites) both(script string) {
	s.Helper()
	s.on(siteA, script)
	s.on(siteB, script)
}

// newPair makes a replicated volume of zeroes that is primary in A.
func (s sites) newPair(v string) {
	s.Helper()
	s.both("thin " + v + " $((SIZE+TAIL)); config " + v + "; renew " + v + "; bring " + v + "; connect " + v)
	s.on(siteA, "await "+v+" cs:Connected; clearUUID "+v+"; drbdadm primary "+v)
}

// backing is the checksum of the volume's content below DRBD.
func (s sites) backing(n int, v string) string {
	s.Helper()
	return s.on(n, "sum "+v)
}

// handlerScript waits for a verdict for its resource, or for this question of it alone.
const handlerScript = `#!/bin/sh
r=$DRBD_RESOURCE n=1
while ! mkdir /run/asked.$r.$n 2>/dev/null; do n=$((n+1)); done
while :; do
	for f in /run/verdict.$r /run/verdict.$r.$n; do [ -s $f ] && exit $(cat $f); done
	sleep .1
done
`

// sitesScript has volumes v1, v2 ... of minors 101, 102 ... Nothing in it ends on a time but with an error.
const sitesScript = `
SIZE=$((32<<20)) TAIL=$((4<<20))
modprobe -a drbd dm-mod dm-thin-pool; mkdir -p /m; vgchange -q -ay -K vg >/dev/null 2>&1
quietly() { "$@" </dev/null >/run/said 2>&1 || { local c=$?; echo "$*: $c"; cat /run/said; return $c; }; }
thin() { quietly lvcreate -T vg/pool -n $1 -V ${2}b -kn -Wn; }
snap() { quietly lvcreate -s -n $2 -kn vg/$1; }
minor() { echo 10${1#v}; }
config() { cat >/etc/drbd.d/$1.res <<X
resource $1 {
  net { protocol C; after-sb-0pri disconnect; after-sb-1pri disconnect; after-sb-2pri disconnect; rr-conflict disconnect;
    ping-int 2; ping-timeout 5; timeout 19; connect-int 2; }
  disk { fencing resource-and-stonith; on-io-error detach; c-plan-ahead 0; resync-rate 102400k; c-min-rate 10240k; }
  options { on-no-data-accessible io-error; }
  handlers { fence-peer "/lab/handler"; }
  device minor $(minor $1); disk "/dev/vg/$1"; meta-disk internal;
  on n1 { address ipv4 $A:7$(minor $1); }
  on n2 { address ipv4 $B:7$(minor $1); }
}
X
}
renew() { quietly drbdadm create-md --force $1; }
bring() { drbdadm new-resource $1 && drbdadm new-minor $1 && quietly drbdadm attach $1; }
connect() { drbdadm connect "$@"; }
sever() { drbdadm disconnect --force $1; }
down() { drbdsetup status $1 >/dev/null 2>&1 || return 0; drbdadm disconnect --force $1 >/dev/null 2>&1 || true; drbdsetup down $1; }
clearUUID() { drbdadm -- --clear-bitmap new-current-uuid $1; await $1 ds:UpToDate/UpToDate; }
slow() { drbdadm disk-options --c-plan-ahead=0 --resync-rate=1M $1; }
fast() { drbdadm disk-options --c-plan-ahead=0 --resync-rate=100M $1; }
state() { grep "^ *$(minor $1):" /proc/drbd; }
uuid() { drbdadm get-gi $1 | cut -c1-15; }
await() { local i; for i in $(seq 2000); do state $1 | grep -qE -- "$2" && return 0; sleep .1; done; echo "$1 is not $2"; state $1; return 1; }
synced() { local i; for i in $(seq 2000); do [ $(grep -A1 "^ *$(minor $1):" /proc/drbd | sed -n 's/.*oos://p') -lt $2 ] && return 0; sleep .1; done; return 1; }
frozen() { await $1 ' s-----'; }
asked() { local i; for i in $(seq 2000); do [ -e /run/asked.$1.$2 ] && return 0; sleep .1; done; return 1; }
said() { local i; for i in $(seq 2000); do dmesg | grep -qF -- "$1" && return 0; sleep .1; done; return 1; }
verdict() { echo 4 >/run/verdict.new; mv /run/verdict.new /run/verdict.$1; }
forget() { rm -rf /run/verdict.* /run/asked.*; }
sum() { blockdev --flushbufs /dev/vg/$1; dd if=/dev/vg/$1 bs=1M count=$((SIZE>>20)) iflag=direct 2>/dev/null | md5sum | cut -c1-32; }
fill() { dd if=/dev/urandom of=/dev/drbd$(minor $1) bs=1M seek=$2 count=$3 oflag=direct conv=notrunc 2>/dev/null; }
`
