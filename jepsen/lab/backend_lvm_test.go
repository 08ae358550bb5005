package lab_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// TestLVM runs the LVM backend's own tests, which need thin pools, in guests: the suite of all backends with its
// snapshots in one, the rest in another. It is not parallel to other tests: its guests alone keep two processors
// busy for minutes. The comparison of metadata files runs on the machine itself, because a guest's files have no
// direct I/O.
func TestLVM(t *testing.T) {
	l := lab.New(t, lab.Config{Guests: 2, NoHoldfast: true, Disks: []int64{1200 << 20}})
	program := l.InstallTests(t, "executor/lvm")
	l.MustBoot(t)
	var group errgroup.Group
	for i, tests := range []string{"-test.run '^TestSnapshots$'", "-test.skip '^(TestSnapshots|TestDeltaMissesNoChangedBlock)$'"} {
		group.Go(func() error {
			_, err := l.Guest(i+1).RunTests(t, program, "HOLDFAST_LVM_TEST_DISK=/dev/ubdc", tests)
			return err
		})
	}
	require.NoError(t, group.Wait())
}
