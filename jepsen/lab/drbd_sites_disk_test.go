package lab_test

import (
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// undo takes a conversion back. The metadata are removed before the volume is made smaller: what a thin volume had behind
// its new end is there again when it grows.
const undo = `down v3; if blkid -p /dev/vg/v3 | grep -q drbd; then quietly drbdadm -- --force wipe-md v3; fi; blkdiscard -f -o $SIZE /dev/vg/v3; quietly lvreduce -f -L ${SIZE}b vg/v3
blkid -p /dev/vg/v3 | grep 'TYPE="ext4"'; quietly e2fsck -fn /dev/vg/v3; mount -r /dev/vg/v3 /m; cat /m/file >/dev/null; umount /m
`

// growV3 makes room for the metadata, which reads as zero.
const growV3 = `quietly lvextend -L $((SIZE+TAIL))b vg/v3; [ $(dd if=/dev/vg/v3 bs=1M skip=$((SIZE>>20)) iflag=direct 2>/dev/null | tr -d '\0' | wc -c) = 0 ];`

// conversionSteps are done in A, which has the content.
var conversionSteps = []string{
	growV3,
	"config v3; renew v3; blkid -p /dev/vg/v3 | grep 'TYPE=\"drbd\"'",
	"bring v3; connect v3; await v3 'cs:Connected.*Inconsistent/Inconsistent'",
	"slow v3; clearUUID v3",
}

// testConversion: S55, a plain volume with content becomes a replica, and a plain volume again from each step.
func (s sites) testConversion() {
	sum := s.on(siteA, "thin v3 $SIZE; mkfs.ext4 -q /dev/vg/v3; mount /dev/vg/v3 /m; dd if=/dev/urandom of=/m/file bs=1M count=8 2>/dev/null; umount /m; sum v3")
	s.on(siteB, "thin v3 $((SIZE+TAIL)); config v3")
	fresh := "down v3; renew v3; bring v3; slow v3; connect v3"
	for last := range conversionSteps {
		if !longForm && last < len(conversionSteps)-1 {
			continue
		}
		s.on(siteB, fresh)
		s.convert(conversionSteps[:last+1], sum)
		s.undo(sum)
	}
	s.on(siteB, "state v3 | grep ds:UpToDate/") // over zeroes: the seed's peer may be trusted by nobody before it was copied
	s.on(siteB, fresh)
	s.convert(conversionSteps, sum)
	s.on(siteB, "drbdadm invalidate v3; await v3 'cs:SyncTarget.*Inconsistent/UpToDate'")
	s.undo(sum)
	s.on(siteB, fresh)
	s.convert(conversionSteps, sum)
	s.on(siteA, "fast v3")
	s.on(siteB, "fast v3; dmesg -C; drbdadm invalidate v3; said 'Began resync as SyncTarget'; await v3 ds:UpToDate/UpToDate")
	require.Equal(s, sum, s.backing(siteB, "v3"))
	// The kernel lets go of the disk a moment after its device is down.
	require.Equal(s, sum, s.on(siteA, "drbdadm primary v3; mount /dev/drbd103 /m; umount /m; drbdadm secondary v3; down v3; for i in $(seq 100); do mount -r -t ext4 /dev/vg/v3 /m 2>/dev/null && break; sleep .1; done; umount /m; echo "+sum))
	s.both("down v3; lvremove -qq -f vg/v3; rm /etc/drbd.d/v3.res")
}

func (s sites) convert(steps []string, sum string) {
	s.Helper()
	for _, step := range steps {
		s.on(siteA, step)
		require.Equal(s, sum, s.backing(siteA, "v3"), step)
	}
}

func (s sites) undo(sum string) {
	s.Helper()
	s.on(siteA, "[ -e /etc/drbd.d/v3.res ] || config v3; "+undo)
	require.Equal(s, sum, s.backing(siteA, "v3"))
}

// roll puts back what was kept of B's replica, as it was when it was cut.
const roll = "down v4; lvremove -qq -f vg/v4; snap kept v4;"

// testRollback: S43, in both ways that patch A or B by a bitmap which does not name all, and in the one that does not.
func (s sites) testRollback() {
	s.newPair("v4")
	s.rollbackForced()
	s.rollbackUnasked()
	s.rollbackSafely()
	s.both("down v4; lvremove -qq -f vg/v4; rm /etc/drbd.d/v4.res")
}

// interruptSync leaves B kept, and then half of A's writes; A's resource is down. It returns what was kept.
func (s sites) interruptSync(end func()) (kept string) {
	s.on(siteA, "await v4 'UpToDate/UpToDate'; state v4 | grep -q ro:Primary || drbdadm primary v4; verdict v4")
	kept = s.on(siteB, "await v4 'UpToDate/UpToDate'; sever v4; lvremove -qq -f vg/kept 2>/dev/null || true; snap v4 kept; sum v4")
	s.on(siteA, "await v4 'UpToDate/Outdated.* r-----'; fill v4 0 12; slow v4")
	s.on(siteB, "slow v4; connect v4; await v4 cs:SyncTarget; synced v4 $((9<<10))")
	end()
	s.on(siteB, "await v4 'cs:WFConnection.*Inconsistent/'")
	return kept
}

// takeDown ends A as a site does that was cut off, and then unmounts its volume.
func (s sites) takeDown() {
	s.on(siteA, "sever v4; state v4 | grep 'UpToDate/Inconsistent.* r-----'; drbdadm secondary v4; down v4; forget")
}

// remake copies all of one from the other.
func (s sites) remake(from, to int) {
	s.Helper()
	s.on(to, "down v4; renew v4; bring v4; fast v4; connect v4")
	s.on(from, "fast v4; state v4 | grep -q StandAlone && connect v4; await v4 ds:UpToDate/UpToDate")
	require.Equal(s, s.backing(siteA, "v4"), s.backing(siteB, "v4"))
}

// rollbackForced: B is promoted, and A discards its data: only what the bitmaps name is copied.
func (s sites) rollbackForced() {
	kept := s.interruptSync(s.takeDown)
	require.Equal(s, kept, s.on(siteB, roll+"sum v4"))
	s.on(siteB, "bring v4; state v4 | grep ds:Consistent/; verdict v4; drbdadm primary --force v4; fill v4 28 1; fast v4; connect v4")
	s.on(siteA, "bring v4; fast v4; state v4 | grep ds:UpToDate/Outdated; connect v4 --discard-my-data; await v4 'UpToDate/UpToDate'")
	require.NotEqual(s, s.backing(siteA, "v4"), s.backing(siteB, "v4"), "both are called up to date")
	s.remake(siteB, siteA)
	s.on(siteB, "forget; drbdadm secondary v4")
}

// rollbackUnasked: the same without any promotion, by a merge of what was kept.
func (s sites) rollbackUnasked() {
	kept := s.interruptSync(s.takeDown)
	require.Equal(s, kept, s.on(siteB, "down v4; lvchange -an vg/v4; quietly lvconvert -y --merge vg/kept; lvchange -ay -K vg/v4; sum v4"))
	s.on(siteB, "bring v4; fast v4; connect v4")
	s.on(siteA, "bring v4; fast v4; connect v4; await v4 'UpToDate/UpToDate'")
	require.NotEqual(s, s.backing(siteA, "v4"), s.backing(siteB, "v4"), "both are called up to date")
	s.remake(siteA, siteB)
}

// rollbackSafely: B's metadata are made anew before it is attached, so the kernel itself refuses A's old ones; and A's are
// made anew before it is attached. A promotion by force of an Inconsistent disk asks nobody.
func (s sites) rollbackSafely() {
	s.interruptSync(func() { require.NoError(s, s.l.Guest(siteA).Crash()) })
	s.on(siteB, roll+`renew v4; bring v4; state v4 | grep ds:Inconsistent/; drbdadm primary --force v4; state v4 | grep ds:UpToDate/Outdated; [ ! -e /run/asked.v4.1 ]
fill v4 28 1; dmesg -C; connect v4`)
	require.NoError(s, s.l.Guest(siteA).Boot(s.Context()))
	s.on(siteA, "bring v4; connect v4 --discard-my-data")
	lab.Await(s, stepPatience, "refused", func() (bool, string) { // by the one that compares first
		said := s.on(siteA, "dmesg | grep Unrelated || true") + s.on(siteB, "dmesg | grep Unrelated || true")
		return said != "", said
	})
	s.remake(siteB, siteA)
	s.on(siteB, "forget; drbdadm secondary v4")
}

// errorTable makes B's disk fail, and thinTable ends that.
const (
	errorTable = "table=$(dmsetup table vg-v5); echo \"$table\" >/run/table; dmsetup suspend --noflush --nolockfs vg-v5; echo \"$table\" | sed 's/thin.*/error/' | dmsetup load vg-v5; dmsetup resume vg-v5"
	thinTable  = "dmsetup suspend --noflush --nolockfs vg-v5; dmsetup load vg-v5 </run/table; dmsetup resume vg-v5"
)

// testFailingPeer: S66, B's disk hangs, fails, or has no room.
func (s sites) testFailingPeer() {
	s.newPair("v5")
	s.testHangingPeer()
	if !longForm {
		s.on(siteA, "drbdadm secondary v5")
		s.both("down v5; lvremove -qq -f vg/v5; rm /etc/drbd.d/v5.res")
		return
	}
	s.testBrokenPeer(errorTable, thinTable)
	s.testBrokenPeer("snap v5 kept5; thin filler $((800<<20)); dd if=/dev/zero of=/dev/vg/filler bs=1M oflag=direct 2>/dev/null || true; lvs --noheadings -o data_percent vg/pool | grep 100.00", "lvremove -qq -f vg/filler vg/kept5")
	s.on(siteA, "drbdadm secondary v5")
	s.both("down v5; lvremove -qq -f vg/v5; rm /etc/drbd.d/v5.res")
}

// timedWrite answers the milliseconds that a write took.
const timedWrite = "a=$(date +%s%N); fill v5 3 1; echo $((($(date +%s%N)-a)/1000000));"

// testHangingPeer: with ko-count 1 the kernel waits once for the time that is set, and then the loss is like any other.
func (s sites) testHangingPeer() {
	s.on(siteA, "dmesg -C; drbdadm net-options --ko-count=1 v5; verdict v5")
	s.on(siteB, "dmsetup suspend --noflush --nolockfs vg-v5")
	s.Logf("B's disk hangs: A's write took %s ms", s.on(siteA, timedWrite))
	s.Log(s.on(siteA, "dmesg | grep 'Remote failed to finish a request .* ko-count (1) . timeout (19'"))
	s.on(siteA, "state v5 | grep UpToDate/Outdated; [ -e /run/asked.v5.1 ]")
	s.on(siteB, "dmsetup resume vg-v5")
	s.on(siteA, "await v5 'cs:Connected.*UpToDate/UpToDate'; forget")
	require.Equal(s, s.backing(siteA, "v5"), s.backing(siteB, "v5"))
}

// testBrokenPeer: B's disk is detached, A goes on without a question, and B is copied completely after new metadata.
func (s sites) testBrokenPeer(begin, end string) {
	s.on(siteB, begin)
	s.Logf("B's disk fails: A's write took %s ms", s.on(siteA, timedWrite+"await v5 'cs:Connected.*UpToDate/Diskless.* r-----'; [ ! -e /run/asked.v5.1 ]"))
	s.on(siteB, end+"; renew v5; quietly drbdadm attach v5")
	s.on(siteA, "await v5 'cs:Connected.*UpToDate/UpToDate'")
	require.Equal(s, s.backing(siteA, "v5"), s.backing(siteB, "v5"))
}
