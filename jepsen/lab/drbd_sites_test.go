package lab_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// longForm shows all; the short form shows what the product relies on, and not what goes wrong without it.
var longForm = os.Getenv("HOLDFAST_LONG") != ""

// TestDRBDSites shows what replication between two sites assumes of DRBD, and what goes wrong where a rule is left out.
func TestDRBDSites(t *testing.T) {
	s := newSites(t)
	s.testFailingPeer()
	s.testConversion()
	if !longForm {
		t.Log("not shown here: members of a group at one instant, and a replica that goes back to a kept copy (HOLDFAST_LONG=1)")
		return
	}
	s.testTogether()
	s.testRollback()
}

// stampWriter writes stamp k to v1 and, when that was acknowledged, to v2. Zeroes are between the stamps.
const stampWriter = `cat >/run/stamps <<'W'
#!/bin/bash
for ((k=1;k<6000;k++)); do for v in 1 2; do
	printf "%4095s\n" $k | dd of=/dev/drbd10$v bs=4096 count=1 seek=$k iflag=fullblock oflag=direct conv=notrunc 2>/dev/null || exit
	echo $k >/run/acked.$v
done; sleep .05; done
W
chmod +x /run/stamps; setsid /run/stamps </dev/null >/dev/null 2>&1 &`

// progress waits until the writer has acknowledged more.
const progress = "k=$(cat /run/acked.2 2>/dev/null || echo 0); for i in $(seq 2000); do [ $(cat /run/acked.2 || echo 0) -gt $((k+3)) ] && exit 0; sleep .1; done; exit 1"

// lastStamp is the last stamp of a volume in B, all before which are there.
func (s sites) lastStamp(v string) int {
	s.Helper()
	out := s.on(siteB, fmt.Sprintf(`blockdev --flushbufs /dev/vg/%[1]s; dd if=/dev/vg/%[1]s bs=1M count=24 iflag=direct 2>/dev/null | tr -d '\0 ' | awk '{if ($1 != NR) exit 1} END {print NR}'`, v))
	n, err := strconv.Atoi(out)
	require.NoError(s, err)
	return n
}

// isOneInstant reports whether B has a state that the writer's volumes were in.
func (s sites) isOneInstant() bool {
	s.Helper()
	first, second := s.lastStamp("v1"), s.lastStamp("v2")
	s.Logf("B has stamp %d on v1, %d on v2", first, second)
	return first == second || first == second+1
}

// testTogether: S52.
func (s sites) testTogether() {
	s.newPair("v1")
	s.newPair("v2")
	s.on(siteA, stampWriter)
	for _, cut := range []int{siteA, siteB} {
		s.cutTogether(cut)
		s.flap(cut)
		s.cutTogether(cut)
		s.ignoresOldVerdict()
		s.goOnTogether(cut)
	}
	s.testSplitNetwork()
	s.tearsWithoutHold()
}

// cutTogether: v1 loses its connection, and only v1 waits; then v2 is cut from one side, and asks as well.
func (s sites) cutTogether(cut int) {
	s.on(siteA, progress)
	s.on(siteB, "sever v1")
	s.on(siteA, "frozen v1; asked v1 1; state v2 | grep 'cs:Connected.* r-----'; fill v2 30 1")
	s.on(cut, "sever v2")
	s.on(siteA, "frozen v2; asked v2 1")
}

// flap: connected before any verdict, both resume and nothing is left of it.
func (s sites) flap(cut int) {
	before := s.on(siteA, "uuid v1; uuid v2")
	s.on(siteB, "connect v1")
	s.on(cut, "connect v2")
	s.on(siteA, "for v in v1 v2; do await $v 'cs:Connected.*UpToDate/UpToDate.* r-----'; done;"+progress)
	require.Equal(s, before, s.on(siteA, "uuid v1; uuid v2"))
	require.Equal(s, before, s.on(siteB, "uuid v1; uuid v2"))
}

// ignoresOldVerdict: a verdict that answers the loss before is not taken for an answer to this one.
func (s sites) ignoresOldVerdict() {
	s.on(siteA, "asked v1 2; asked v2 2; dmesg -C; verdict v1.1; said 'Ignoring fence-peer exit code'; state v1 | grep ' s-----'")
}

// goOnTogether gives the verdicts after all were cut: B's replicas are of one instant.
func (s sites) goOnTogether(cut int) {
	s.on(siteA, "verdict v1; verdict v2; for v in v1 v2; do await $v 'UpToDate/Outdated.* r-----'; done;"+progress)
	require.True(s, s.isOneInstant(), "S52")
	s.reunite(siteB, cut)
}

// reunite connects v1 and v2 where each was cut.
func (s sites) reunite(first, second int) {
	s.on(first, "connect v1")
	s.on(second, "connect v2")
	for n := siteA; n <= siteB; n++ {
		s.on(n, "for v in v1 v2; do await $v 'cs:Connected.*UpToDate/UpToDate'; done; forget")
	}
}

// testSplitNetwork: the network loses both. A primary that asks already is cut by force without waiting, and stays
// frozen; it has to be connected again, while the other one resumes by itself.
func (s sites) testSplitNetwork() {
	s.on(siteA, progress)
	require.NoError(s, s.l.Isolate(s.Context(), lab.Replication, siteB))
	s.on(siteA, "frozen v1; frozen v2; asked v1 1; asked v2 1; sever v1; asked v1 2; state v1 | grep 'cs:StandAlone.* s-----'")
	require.NoError(s, s.l.ReconnectAll(s.Context()))
	s.on(siteA, "await v2 'cs:Connected.* r-----'; state v1 | grep ' s-----'; connect v1; await v1 'cs:Connected.* r-----'; forget;"+progress)
}

// tearsWithoutHold: with a verdict for v1 at once, while v2 is still connected, B has a state that never was.
func (s sites) tearsWithoutHold() {
	s.on(siteA, "verdict v1")
	s.on(siteB, "sever v1")
	s.on(siteA, "await v1 'UpToDate/Outdated.* r-----';"+progress)
	s.on(siteB, "sever v2")
	s.on(siteA, "frozen v2")
	require.False(s, s.isOneInstant(), "it is the verdict's delay that keeps it")
	s.both("! dmesg | grep 'Split-Brain detected but unresolved'")
	s.on(siteA, "verdict v2; await v2 'UpToDate/Outdated.* r-----'; while pkill -x stamps; do sleep .1; done; for v in v1 v2; do until drbdadm secondary $v 2>/dev/null; do sleep .1; done; down $v; done; forget")
	s.both("for v in v1 v2; do down $v; lvremove -qq -f vg/$v; rm /etc/drbd.d/$v.res; done")
}
