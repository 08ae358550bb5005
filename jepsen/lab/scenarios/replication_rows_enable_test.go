package scenarios

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/jepsen/replicate"
)

// enableRows are those of EnableVolumeReplication.
var enableRows = []replicationRow{
	{"ADD-REPL-Enable-01", idRow(replicate.Enable)},
	{"ADD-REPL-Enable-06", func(x *rowLab, t *testing.T) {
		e := x.enabledPlain(t)
		for what, err := range e.pending {
			requireStatus(t, err, codes.Aborted, what+" while replication is being enabled")
		}
	}},
	{"ADD-REPL-Enable-09", func(x *rowLab, t *testing.T) {
		v := x.pair(t)
		before := x.info9(t, v)
		for range 3 {
			x.a.ok(t, replicate.Enable, replicate.Request{Volume: v.id})
			x.b.ok(t, replicate.Enable, replicate.Request{Volume: v.id})
		}
		require.Equal(t, before, x.info9(t, v))
	}},
	{"ADD-REPL-Enable-10", func(x *rowLab, t *testing.T) {
		require.NotNil(t, x.a.info(t, replicate.Request{Volume: x.pair(t).id}), "replicated by two sites from its birth")
		v := x.enabledPlain(t).volume
		require.NotNil(t, x.a.info(t, replicate.Request{Volume: v.id}), "replicated later")
		require.Equal(t, []string{"n1", "n2"}, x.replicas(t, v))
		x.awaitInSync(t, v)
	}},
	{"ADD-REPL-Enable-11", func(x *rowLab, t *testing.T) {
		v := x.pair(t)
		before := x.info9(t, v)
		for key, value := range map[string]string{"peerSite": "W", "protocol": "A", "isolated": "freeze", "keep": "false"} {
			x.a.refused(t, codes.FailedPrecondition, replicate.Enable, replicate.Request{Volume: v.id}.With(key, value))
		}
		require.Equal(t, before, x.info9(t, v))
	}},
}

// info9 is what of a relation must not change when it is enabled again.
func (x *rowLab) info9(t *testing.T, v *volume) string {
	t.Helper()
	s, err := x.logState(t.Context(), v)
	require.NoError(t, err)
	return fmt.Sprint(x.replicas(t, v), s.Replication.Generation, x.a.isPrimary(t.Context(), v), x.b.isPrimary(t.Context(), v))
}

// enabling is a plain volume whose replication was enabled while the process of the other site's host stood still.
type enabling struct {
	volume  *volume
	pending map[string]error // of calls meanwhile, by what was called
	unready error            // of Info meanwhile
}

func (x *rowLab) enabledPlain(t *testing.T) *enabling {
	t.Helper()
	return x.enabling.tell(t, func(t *testing.T) *enabling {
		e := &enabling{volume: &volume{name: "plain", size: 32 * mi}, pending: map[string]error{}}
		require.NoError(t, x.a.create(t.Context(), e.volume, []string{"n1"}, map[string]string{"replicas": "1"}))
		of := replicate.Request{Volume: e.volume.id}
		x.stopNode(t, 2, syscall.SIGSTOP)
		e.pending["enable"] = x.a.held(t.Context(), replicate.Enable, of)
		e.pending["enable again"] = x.a.held(t.Context(), replicate.Enable, of)
		e.pending["promote at the other site"] = x.b.held(t.Context(), replicate.Promote, of)
		e.pending["demote"] = x.a.held(t.Context(), replicate.Demote, of)
		e.unready = x.a.held(t.Context(), replicate.Info, of)
		x.stopNode(t, 2, syscall.SIGCONT)
		x.a.ok(t, replicate.Enable, of)
		return e
	})
}

// disableRows end replications.
var disableRows = []replicationRow{
	{"ADD-REPL-Disable-01", idRow(replicate.Disable)},
	{"ADD-REPL-Disable-10", func(x *rowLab, t *testing.T) {
		v := x.enabledPlain(t).volume
		x.awaitInSync(t, v)
		x.a.use(t, v, "n1")
		before := x.fill(t, v, "n1", "before", 4*mi)
		x.awaitInSync(t, v)
		for range 2 {
			x.a.ok(t, replicate.Disable, replicate.Request{Volume: v.id})
		}
		eventually(t, timeout, "nothing is left at the other site", func(ctx context.Context) error {
			d, err := x.kernel(ctx, v, "n2")
			if err == nil && d != (drbdState{}) {
				err = fmt.Errorf("the kernel there has %+v", d)
			}
			if left := x.mustExec(t, "n2", fmt.Sprintf("lvs --noheadings -o lv_name vg | grep %s; true", v.id)); err == nil && left != "" {
				err = fmt.Errorf("the pool there has %s", left)
			}
			return err
		})
		after := x.fill(t, v, "n1", "after", 4*mi)
		x.a.refused(t, codes.FailedPrecondition, replicate.Info, replicate.Request{Volume: v.id})
		x.a.endUse(t, v, "n1")
		x.a.use(t, v, "n1")
		require.Equal(t, []string{before, after}, []string{x.sum(t, v, "n1", "before"), x.sum(t, v, "n1", "after")})
		x.a.endUse(t, v, "n1")
		x.a.deleteVolume(t, v)
	}},
}

// lastRows look at what all others did.
var lastRows = []replicationRow{
	{"ADD-REPL-Info-04", func(x *rowLab, t *testing.T) {
		for _, unknown := range []replicate.Request{
			{Volume: "hf-00000000-0000-4000-8000-000000000000"}, {Group: "hg-00000000-0000-4000-8000-000000000000"}, {Volume: "of another form"},
		} {
			x.a.refused(t, codes.NotFound, replicate.Info, unknown)
		}
		requireStatus(t, x.enabledPlain(t).unready, codes.NotFound, "what was never equal at both sites has no details")
	}},
	{"ADD-REPL-Svc-02", (*rowLab).repeatAll},
	{"ADD-REPL-Info-15", func(x *rowLab, t *testing.T) {
		seen := map[replication.GetVolumeReplicationInfoResponse_Status]bool{}
		for _, info := range x.said {
			seen[info.GetStatus()] = true
			require.LessOrEqual(t, len(info.GetStatusMessage()), 128, info.GetStatusMessage())
			if info.GetStatus() != replication.GetVolumeReplicationInfoResponse_HEALTHY {
				require.NotEmpty(t, info.GetStatusMessage(), info.GetStatus().String())
			}
		}
		for status := range replication.GetVolumeReplicationInfoResponse_Status_name {
			require.True(t, seen[replication.GetVolumeReplicationInfoResponse_Status(status)], "no row saw the status %d", status)
		}
	}},
}

// repeatAll calls each method ten times, and once more after the leader was replaced: all answers are the same.
func (x *rowLab) repeatAll(t *testing.T) {
	of := replicate.Request{Volume: x.pair(t).id}
	for _, c := range []struct {
		s      *rowSite
		method string
	}{
		{x.a, replicate.Enable}, {x.b, replicate.Enable}, {x.a, replicate.Promote}, {x.a, replicate.Info}, {x.b, replicate.Demote}, {x.b, replicate.Resync},
		{x.a, replicate.Demote}, {x.b, replicate.Promote}, {x.b, replicate.Info}, {x.a, replicate.Resync}, {x.a, replicate.Disable},
	} {
		for range 9 {
			c.s.ok(t, c.method, of)
		}
		if c.method == replicate.Demote || c.method == replicate.Promote {
			x.replaceLeader(t)
		}
		c.s.ok(t, c.method, of)
	}
	x.a.ok(t, replicate.Enable, of)
}

// replaceLeader ends the leader, and starts its process again.
func (x *rowLab) replaceLeader(t *testing.T) {
	t.Helper()
	leader, err := x.cluster.Leader(t.Context())
	require.NoError(t, err)
	require.NoError(t, x.cluster.KillController(t.Context(), leader))
	require.NoError(t, x.cluster.StartController(t.Context(), leader))
}

var outOfSyncField = regexp.MustCompile(`oos:(\d+)`)

// outOfSync is how many KiB a kernel has yet to copy; 0 where it does not have the volume.
func (x *rowLab) outOfSync(t *testing.T, v *volume, node string) int64 {
	t.Helper()
	all, err := x.guest(node).Get(t.Context(), "/proc/drbd")
	require.NoError(t, err)
	_, own, found := strings.Cut("\n"+string(all), fmt.Sprintf("\n%2s: ", x.minor(t, v, node)))
	m := outOfSyncField.FindStringSubmatch(own)
	if !found || m == nil {
		return 0
	}
	kib, err := strconv.ParseInt(m[1], 10, 64)
	require.NoError(t, err)
	return kib
}

// keptCopies is how many kept copies of a volume there are on a host.
func (x *rowLab) keptCopies(t *testing.T, v *volume, node string) (n int) {
	t.Helper()
	var said struct {
		Snapshots []struct {
			Node string `json:"node"`
		} `json:"snapshots"`
	}
	x.cluster.MustAsk(t, &said, "volumes", "kept", v.id)
	for _, s := range said.Snapshots {
		if s.Node == node {
			n++
		}
	}
	return n
}
