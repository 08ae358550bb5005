package alerts

import (
	"fmt"
	"strconv"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// reserveAPool makes volumes that may grow to what the pool may promise, each a good part of what is left.
func (w *watched) reserveAPool() {
	w.Quiet("HoldfastPoolReserved")
	var made []*harness.Volume
	for left := w.number("max(holdfast_cluster_pool_reservable_bytes)"); len(made) < 6; left *= 0.6 {
		v, err := w.NewCO().Create(w.t.Context(), harness.Spec{Name: fmt.Sprintf("large-%d", len(made)), Size: int64(0.4*left) &^ (harness.Mi - 1), Block: true})
		require.NoError(w.t, err)
		made = append(made, v)
	}
	w.Fires("HoldfastPoolReserved")
	for _, v := range made {
		require.NoError(w.t, w.NewCO().Delete(w.t.Context(), v))
	}
	w.Ends("HoldfastPoolReserved")
}

func (w *watched) number(expr string) float64 {
	w.t.Helper()
	text, err := w.Value(w.t.Context(), expr)
	require.NoError(w.t, err)
	number, err := strconv.ParseFloat(text, 64)
	require.NoError(w.t, err)
	return number
}

// limitInNoGroup asks for limits of a staged volume on a host whose control group for them is not there, and again once it is no
// longer staged.
func (w *watched) limitInNoGroup() {
	w.Quiet("HoldfastOperationFailed")
	co := w.NewCO()
	v, err := co.Create(w.t.Context(), harness.Spec{Name: "limited"})
	require.NoError(w.t, err)
	require.NoError(w.t, co.Publish(w.t.Context(), v, "n1"))
	require.NoError(w.t, co.Stage(w.t.Context(), v))
	limits := map[string]string{"iopsLimit": "100"}
	err = co.Modify(w.t.Context(), v, limits)
	require.Equal(w.t, codes.FailedPrecondition, status.Code(err), "%v", err)
	w.Fires("HoldfastOperationFailed")
	require.NoError(w.t, co.Unstage(w.t.Context(), v))
	require.NoError(w.t, co.Unpublish(w.t.Context(), v))
	require.NoError(w.t, co.Modify(w.t.Context(), v, limits))
	w.Ends("HoldfastOperationFailed")
	require.NoError(w.t, co.Delete(w.t.Context(), v))
}

// unstageAlone ends the use of a volume while there is no controller.
func (w *watched) unstageAlone(v *harness.Volume) {
	w.Quiet("HoldfastOutbox")
	require.NoError(w.t, w.Kill(w.t.Context(), "c1"))
	require.NoError(w.t, w.NewCO().Unstage(w.t.Context(), v))
	w.Fires("HoldfastOutbox")
	require.NoError(w.t, w.StartChild(w.t.Context(), "c1"))
	w.Ends("HoldfastOutbox")
}

// startAnotherBuild starts a process as another version; it must be noticed by the time at which it is started as that of the others.
func (w *watched) startAnotherBuild(id string) (startUsual func()) {
	w.Quiet("HoldfastVersionsDiffer")
	other, err := harness.BuildVersion(w.t.Context(), "v0.0.0-another", w.t.TempDir())
	require.NoError(w.t, err)
	require.NoError(w.t, harness.Install(other, w.installed))
	w.restart(id)
	w.install() // of what is started next
	return func() {
		w.Fires("HoldfastVersionsDiffer")
		w.restart(id)
		w.Ends("HoldfastVersionsDiffer")
	}
}

func (w *watched) restart(id string) {
	w.t.Helper()
	require.NoError(w.t, w.Kill(w.t.Context(), id))
	require.NoError(w.t, w.StartChild(w.t.Context(), id))
}
