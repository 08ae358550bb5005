package alerts

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// follower is a member that does not lead.
func (w *watched) follower() string {
	w.t.Helper()
	leader, err := w.Leader(w.t.Context())
	require.NoError(w.t, err)
	l, err := w.Layout()
	require.NoError(w.t, err)
	return slices.DeleteFunc(l.ControllerIDs(), func(id string) bool { return id == leader })[0]
}

// pauseAMember stops a member for longer than an election takes to begin, as a host does that is too busy, again and again.
func (w *watched) pauseAMember() {
	w.Quiet("HoldfastElections")
	id := w.follower()
	w.while("HoldfastElections", true, func() {
		_, err := w.Signal(id, syscall.SIGSTOP)
		require.NoError(w.t, err)
		time.Sleep(1500 * time.Millisecond) // how long decides only how often it takes
		_, err = w.Signal(id, syscall.SIGCONT)
		require.NoError(w.t, err)
	})
	w.Fires("HoldfastElections")
	w.Await("one leader", `sum(holdfast_raft_state{state="leader"}) == 1`)
}

// flipABit changes what a member has in its memory of a volume, which then changes: its state is not the others' any more. It leaves,
// and is replaced by a new one.
func (w *watched) flipABit() {
	w.Quiet("HoldfastDiverged")
	const claim = "claim-in-memory-that-lies"
	v, err := w.NewCO().Create(w.t.Context(), harness.Spec{Name: "flipped", Node: "n1", Parameters: map[string]string{
		"csi.storage.k8s.io/pvc/name": claim, "csi.storage.k8s.io/pvc/namespace": "shop", "csi.storage.k8s.io/pv/name": "pv"}})
	require.NoError(w.t, err)
	require.NoError(w.t, w.AwaitAgreement(w.t.Context()))
	id := w.follower()
	old := w.memberID(id)
	l, err := w.Layout()
	require.NoError(w.t, err)
	flipped, err := flip(l.PID(id), claim)
	require.NoError(w.t, err)
	require.Positive(w.t, flipped)
	require.NoError(w.t, w.NewCO().Publish(w.t.Context(), v, "n1"))
	require.NoError(w.t, harness.Poll(w.t.Context(), harness.Patience, id+" to leave", func() (bool, error) { return w.changeUntilDead(id) }))
	w.startNotReady(id)
	w.Fires("HoldfastDiverged")
	require.NoError(w.t, w.Kill(w.t.Context(), id))
	require.NoError(w.t, os.RemoveAll(l.DataDir(id)))
	w.startNotReady(id)
	require.NoError(w.t, harness.Poll(w.t.Context(), harness.Patience, id+" to be replaced", func() (bool, error) {
		res := w.Run(w.t.Context(), "members", "replace", old, "--dir", w.Dir, "--yes", "--wait")
		return res.Code == 0, fmt.Errorf("exit code %d: %s", res.Code, res.Stderr)
	}))
	w.Ends("HoldfastDiverged")
}

// changeUntilDead adds entries to the log, so that a checkpoint is made, and tells whether a child has ended.
func (w *watched) changeUntilDead(id string) (bool, error) {
	v, err := w.NewCO().Create(w.t.Context(), harness.Spec{Name: "changed"})
	require.NoError(w.t, err)
	require.NoError(w.t, w.NewCO().Delete(w.t.Context(), v))
	l, err := w.Layout()
	return err == nil && l.PID(id) == 0, err
}

// startNotReady starts a child that cannot be ready.
func (w *watched) startNotReady(id string) {
	w.t.Helper()
	res := w.Run(w.t.Context(), "dev", "start", "--dir", w.Dir, id)
	require.Contains(w.t, []int{0, 3}, res.Code, res.Stderr)
}

func (w *watched) memberID(id string) string {
	w.t.Helper()
	s, err := w.Status(w.t.Context())
	require.NoError(w.t, err)
	at := slices.IndexFunc(s.Members, func(m harness.Member) bool { return m.ID == id })
	require.GreaterOrEqual(w.t, at, 0, "no member %s", id)
	return s.Members[at].MemberID
}
