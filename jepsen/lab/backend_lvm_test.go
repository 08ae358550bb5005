package lab_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// longSuite are the tests of the suite that the short form leaves to the long one, each half a minute of a guest or more. That a
// call which is cancelled before it begins and one of what is missing change nothing, and what is asked twice, is decided before the first command that changes
// any, and is tested with files and in memory; reverting again and again, and using what was reverted, is what the test of reverts
// that die does; TestACopyReadsZeroBehindTheSourcesContent has what is behind a source's content.
const longSuite = "a_cancelled_revert|nothing_is_reverted_to_a_missing|to_any_of_its_snapshots|a_reverted_image_is_activated|" +
	"what_is_behind_a_source|a_revert_leaves_other|what_an_interrupted_revert_left|a_clone_has_the_bytes|the_map_names_all|a_delta_is_resumed|" +
	"a_snapshot_outlives|taking_a_snapshot_twice|removing_a_snapshot_twice|there_is_no_snapshot|an_active_image_is_neither"

// longTests are LVM's own tests that the short form leaves to the long one: processes that die at each of their commands, of which
// the suite has one that is interrupted once, and pools that are full of metadata or below a filesystem.
const longTests = "TestARevertThatDiesAtAnyCommandIsCompleted|TestAShrinkThatDiesAtAnyCommandIsCompleted|TestAProcessKilledAtAnyMomentLeavesNothingHalfDone|" +
	"TestPoolPassesTheSuite|TestAPoolThatRunsFullOfMetadata|TestAFilesystemOnAFullPoolGetsErrors"

// TestLVM runs the LVM backend's own tests, which need thin pools, in two guests; the long form has a crash at each command
// of what has many, and the rest of the suite. It is not parallel to other tests: its guests alone keep two processors busy for minutes. The
// comparison of metadata files runs on the machine itself, because a guest's files have no direct I/O.
func TestLVM(t *testing.T) {
	l := lab.New(t, lab.Config{Guests: 2, NoHoldfast: true, Disks: []int64{1200 << 20}})
	program := l.InstallTests(t, "executor/lvm")
	l.MustBoot(t)
	left, ownLeft := "shr[iu]nk", "TestSnapshots|TestDeltaMissesNoChangedBlock"
	if !longForm {
		left, ownLeft = left+"|"+longSuite, ownLeft+"|"+longTests
	}
	var group errgroup.Group
	for i, tests := range [][]string{
		{"-test.run '^TestSnapshots$' -test.skip '/(" + left + ")'"},
		{"-test.run '^TestSnapshots$/shr[iu]nk'", "-test.skip '^(" + ownLeft + ")$'"},
	} {
		group.Go(func() error { return runEach(t, l.Guest(i+1), program, tests) })
	}
	require.NoError(t, group.Wait())
}

// runEach runs tests of LVM's one after the other in a guest.
func runEach(t *testing.T, g *lab.Guest, program lab.TestProgram, tests []string) error {
	for _, choose := range tests {
		if !longForm {
			choose += " -test.short"
		}
		if _, err := g.RunTests(t, program, "HOLDFAST_LVM_TEST_DISK=/dev/ubdc", choose); err != nil {
			return err
		}
	}
	return nil
}
