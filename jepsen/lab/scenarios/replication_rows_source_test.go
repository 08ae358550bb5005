package scenarios

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
	"github.com/holdfast-storage/holdfast/jepsen/replicate"
)

// sourceRows are those of what is replicated.
var sourceRows = []replicationRow{
	{"ADD-REPL-Source-05", func(x *rowLab, t *testing.T) {
		v := x.pair(t)
		old := replicate.Request{VolumeID: v.id}
		for _, method := range []string{replicate.Enable, replicate.Promote, replicate.Info, replicate.Demote, replicate.Resync, replicate.Promote} {
			x.a.ok(t, method, old)
		}
		require.NotEmpty(t, x.a.info(t, old).GetLastSyncTime())
		require.Equal(t, x.a.info(t, old).GetStatus(), x.a.info(t, replicate.Request{Volume: v.id}).GetStatus())
		x.b.ok(t, replicate.Disable, old)
	}},
	{"ADD-REPL-Source-08", func(x *rowLab, t *testing.T) {
		v := x.pair(t)
		require.Equal(t, v.id, x.copied(t, v, "B").id, "the other site knows it by the id of CreateVolume")
		for _, s := range []*rowSite{x.a, x.b} {
			s.ok(t, replicate.Enable, replicate.Request{Volume: v.id})
			for _, other := range []string{v.id + "0", v.id[:len(v.id)-1], strings.ToUpper(v.id), v.name} {
				s.refused(t, codes.NotFound, replicate.Info, replicate.Request{Volume: other})
				s.refused(t, codes.NotFound, replicate.Promote, replicate.Request{Volume: other})
			}
		}
	}},
	{"ADD-REPL-Source-07", (*rowLab).groupsMoveWhole},
}

// groupsMoveWhole: a group of which one member fails moves with none of them; else all move together.
func (x *rowLab) groupsMoveWhole(t *testing.T) {
	var volumes []*volume
	for i := range 3 {
		volumes = append(volumes, x.a.createOverSites(t, fmt.Sprintf("member-%d-%d", x.count, i), true))
	}
	x.count++
	g := replicate.Request{Group: x.makeGroup(t, volumes)}
	x.a.ok(t, replicate.Enable, g)
	for _, v := range volumes {
		x.awaitInSync(t, v)
	}
	last := volumes[2]
	require.NoError(t, x.a.publish(t.Context(), last, "n1"))
	x.a.refused(t, codes.FailedPrecondition, replicate.Demote, g)
	x.requireUsable(t, volumes, x.a, "n1", x.b, "n2")
	require.NoError(t, x.a.unpublish(t.Context(), last, "n1"))

	x.a.ok(t, replicate.Demote, g)
	for _, v := range volumes {
		requireStatus(t, x.a.publication(t, v, "n1"), codes.FailedPrecondition, v.name)
		requireStatus(t, x.b.publication(t, v, "n2"), codes.FailedPrecondition, v.name)
	}
	x.requireNoneMovesBeside(t, g, volumes)
	x.b.ok(t, replicate.Promote, g)
	x.requireUsable(t, volumes, x.b, "n2", x.a, "n1")
	x.removeGroup(t, g, volumes)
}

// requireNoneMovesBeside: one member's replica at B misses writes, so that B is not promoted: no member is.
func (x *rowLab) requireNoneMovesBeside(t *testing.T, g replicate.Request, volumes []*volume) {
	t.Helper()
	x.a.ok(t, replicate.Promote, g)
	behind := volumes[1]
	x.a.use(t, behind, "n1")
	w := x.write(t, behind, "n1", 1)
	require.NoError(t, x.lab.Partition(t.Context(), lab.Replication, []int{1}, []int{2}))
	x.awaitKernel(t, behind, "n1", timeout, "it goes on alone", isAlone)
	w.awaitBlocks(t, 20)
	w.stop(t)
	x.a.endUse(t, behind, "n1")
	x.a.ok(t, replicate.Demote, g)
	x.b.refused(t, codes.Aborted, replicate.Promote, g)
	for _, v := range volumes {
		requireStatus(t, x.b.publication(t, v, "n2"), codes.FailedPrecondition, v.name)
	}
	require.NoError(t, x.lab.ReconnectAll(t.Context()))
	x.awaitReady(t.Context(), t, x.b, g)
}

func isAlone(d drbdState) bool { return d.connection != "Connected" && !d.suspended }

// requireUsable requires that each volume is published at one site alone.
func (x *rowLab) requireUsable(t *testing.T, volumes []*volume, here *rowSite, at string, there *rowSite, elsewhere string) {
	t.Helper()
	for _, v := range volumes {
		requireStatus(t, there.publication(t, v, elsewhere), codes.FailedPrecondition, v.name)
		require.NoError(t, here.publish(t.Context(), v, at))
		require.NoError(t, here.unpublish(t.Context(), v, at))
	}
	require.NoError(t, here.publish(t.Context(), volumes[2], at)) // as it was
}

// makeGroup makes a volume group at A.
func (x *rowLab) makeGroup(t *testing.T, volumes []*volume) (id string) {
	t.Helper()
	req := &volumegroup.CreateVolumeGroupRequest{Name: fmt.Sprintf("row-group-%d", x.count)}
	for _, v := range volumes {
		req.VolumeIds = append(req.VolumeIds, v.id)
	}
	require.NoError(t, retryUntil(t.Context(), "make a group", func(ctx context.Context) error {
		resp, err := volumegroup.NewControllerClient(x.a.conn).CreateVolumeGroup(ctx, req)
		id = resp.GetVolumeGroup().GetVolumeGroupId()
		return err
	}))
	return id
}

// removeGroup ends all of it at the site that made it, which becomes primary again.
func (x *rowLab) removeGroup(t *testing.T, g replicate.Request, volumes []*volume) {
	t.Helper()
	require.NoError(t, x.b.unpublish(t.Context(), volumes[2], "n2"))
	x.b.ok(t, replicate.Demote, g)
	x.a.ok(t, replicate.Promote, g)
	x.a.ok(t, replicate.Disable, g)
	groups := volumegroup.NewControllerClient(x.a.conn)
	require.NoError(t, retryUntil(t.Context(), "empty the group", func(ctx context.Context) error {
		_, err := groups.ModifyVolumeGroupMembership(ctx, &volumegroup.ModifyVolumeGroupMembershipRequest{VolumeGroupId: g.Group})
		if err == nil {
			_, err = groups.DeleteVolumeGroup(ctx, &volumegroup.DeleteVolumeGroupRequest{VolumeGroupId: g.Group})
		}
		return err
	}))
	for _, v := range volumes {
		x.a.deleteVolume(t, v)
	}
}

// infoRows are those of GetVolumeReplicationInfo that disturb nothing, or only the link.
var infoRows = []replicationRow{
	{"ADD-REPL-Info-01", idRow(replicate.Info)},
	{"ADD-REPL-Info-09", func(x *rowLab, t *testing.T) {
		v := x.pair(t)
		of := replicate.Request{Volume: v.id}
		x.b.refused(t, codes.FailedPrecondition, replicate.Info, of)
		x.a.ok(t, replicate.Demote, of)
		x.a.refused(t, codes.FailedPrecondition, replicate.Info, of)
		x.b.refused(t, codes.FailedPrecondition, replicate.Info, of)
		x.a.ok(t, replicate.Promote, of)
		require.NotNil(t, x.a.info(t, of))
		plain := x.a.createUnused(t)
		x.a.refused(t, codes.FailedPrecondition, replicate.Info, replicate.Request{Volume: plain.id})
		x.a.deleteVolume(t, plain)
	}},
	{"ADD-REPL-Info-10", func(x *rowLab, t *testing.T) {
		of := replicate.Request{Volume: x.pair(t).id}
		first := x.a.info(t, of).GetLastSyncTime()
		require.NotNil(t, first)
		require.NoError(t, first.CheckValid())
		require.WithinDuration(t, time.Now(), first.AsTime(), time.Hour, "it is a time of this test")
		eventually(t, timeout, "it is seen to be equal again", func(context.Context) error {
			if again := x.a.info(t, of).GetLastSyncTime().AsTime(); !again.After(first.AsTime()) {
				return fmt.Errorf("it is %s", again)
			}
			return nil
		})
	}},
	{"ADD-REPL-Info-11", func(x *rowLab, t *testing.T) {
		if d := x.a.info(t, replicate.Request{Volume: x.pair(t).id}).GetLastSyncDuration(); d != nil {
			require.NoError(t, d.CheckValid())
			require.GreaterOrEqual(t, d.AsDuration(), time.Duration(0))
		}
		d := x.forcedFailover(t).synced.GetLastSyncDuration()
		require.NotNil(t, d, "a resynchronisation took some time")
		require.Greater(t, d.AsDuration(), time.Duration(0))
	}},
	{"ADD-REPL-Info-12", func(x *rowLab, t *testing.T) {
		require.GreaterOrEqual(t, x.a.info(t, replicate.Request{Volume: x.pair(t).id}).GetLastSyncBytes(), int64(0))
		f := x.forcedFailover(t)
		require.GreaterOrEqual(t, f.synced.GetLastSyncBytes(), int64(64<<10), "a resynchronisation copied what was written")
		require.LessOrEqual(t, f.synced.GetLastSyncBytes(), 2*f.size)
	}},
	{"ADD-REPL-Info-13", func(x *rowLab, t *testing.T) {
		v := x.pair(t)
		eventually(t, timeout, "asking changes nothing", func(ctx context.Context) error {
			before := x.history(t, v)
			for range 10 {
				x.a.info(t, replicate.Request{Volume: v.id})
				x.b.refused(t, codes.FailedPrecondition, replicate.Info, replicate.Request{Volume: v.id})
			}
			if after := x.history(t, v); after != before {
				return fmt.Errorf("the log has more of it: %q", strings.TrimPrefix(after, before)) // a host may have reported meanwhile
			}
			return nil
		})
	}},
	{"ADD-REPL-Info-14", (*rowLab).statusIsNeverStale},
}

// nodeTimeout is --node-timeout: an observation that is older says nothing. A controller and a host in guests that share
// two processors need some time of their own.
const nodeTimeout, slack = 10 * time.Second, 20 * time.Second

// statusIsNeverStale: the status is no HEALTHY of a cache while the link is cut, nor when the primary's host says
// nothing.
func (x *rowLab) statusIsNeverStale(t *testing.T) {
	v := x.pair(t)
	of := replicate.Request{Volume: v.id}
	x.a.use(t, v, "n1")
	x.awaitInSync(t, v)
	x.awaitStatusOf(t, of, timeout, replication.GetVolumeReplicationInfoResponse_HEALTHY)
	require.NoError(t, x.lab.Partition(t.Context(), lab.Replication, []int{1}, []int{2}))
	x.awaitKernel(t, v, "n1", timeout, "it lost its peer", func(d drbdState) bool { return d.connection != "Connected" })
	x.awaitStatusOf(t, of, nodeTimeout+slack, replication.GetVolumeReplicationInfoResponse_DEGRADED, replication.GetVolumeReplicationInfoResponse_ERROR)
	for range 10 {
		require.NotEqual(t, replication.GetVolumeReplicationInfoResponse_HEALTHY, x.a.info(t, of).GetStatus())
	}
	require.NoError(t, x.lab.ReconnectAll(t.Context()))
	x.awaitInSync(t, v)
	x.awaitStatusOf(t, of, timeout, replication.GetVolumeReplicationInfoResponse_HEALTHY)
	require.NoError(t, x.cluster.KillNode(t.Context(), 1))
	x.awaitStatusOf(t, of, nodeTimeout+slack, replication.GetVolumeReplicationInfoResponse_UNKNOWN)
	require.NoError(t, x.cluster.StartNode(t.Context(), 1))
	x.awaitStatusOf(t, of, timeout, replication.GetVolumeReplicationInfoResponse_HEALTHY)
	x.a.endUse(t, v, "n1")
}

// awaitStatusOf waits until A has one of these statuses.
func (x *rowLab) awaitStatusOf(t *testing.T, r replicate.Request, within time.Duration, want ...replication.GetVolumeReplicationInfoResponse_Status) {
	t.Helper()
	eventually(t, within, fmt.Sprintf("its status is one of %v", want), func(ctx context.Context) error {
		answer, err := x.a.call(ctx, replicate.Info, r)
		for _, one := range want {
			if err == nil && answer.Info.GetStatus() == one {
				return nil
			}
		}
		return fmt.Errorf("it is %s (%q): %w", answer.Info.GetStatus(), answer.Info.GetStatusMessage(), err)
	})
}

// idRow makes a row of the replication id of a method: with the relation's own or none it is answered, and with another one
// there is no such replication, and nothing changes.
func idRow(method string) func(x *rowLab, t *testing.T) {
	return func(x *rowLab, t *testing.T) {
		v := x.namedPair(t)
		s := x.a
		if method == replicate.Resync || method == replicate.Disable {
			s = x.b // it is secondary: of a primary these are refused, or end it
		}
		before := x.history(t, v)
		s.refused(t, codes.NotFound, method, replicate.Request{Volume: v.id, ID: "dr-2"})
		require.NotContains(t, strings.TrimPrefix(x.history(t, v), before), "accepted")
		for _, id := range []string{"dr-1", "", "dr-1"} {
			s.ok(t, method, replicate.Request{Volume: v.id, ID: id})
		}
		x.a.ok(t, replicate.Promote, replicate.Request{Volume: v.id, ID: "dr-1"})
		require.NotNil(t, x.a.info(t, replicate.Request{Volume: v.id}))
	}
}

// codeOf is short for the code of an error.
func codeOf(err error) codes.Code { return status.Code(err) }
