package scenarios

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// A site loses its power under writers. The other one is promoted without force, and has every acknowledged write.
// The site that returns has not the role any more, though its orchestrator still wants it (S41); it is brought up to
// date, and gets the role back in order (S30, S38, S42).
func TestS30_S38_S41_S42_ASiteLosesItsPower(t *testing.T) {
	w, a, b := newSites(t)
	relations := []*relation{newRelation(t, a, b, "power", false), newRelation(t, a, b, "power-raw", true)}
	for range rounds() {
		for _, r := range relations {
			r.eager = math.MaxUint64 // the loss of power is to find a write in flight
			r.use(t, a)
			r.eager = eagerBlocks
		}
		a.losePower(t)
		for _, r := range relations {
			r.gone()
			r.failOver(t, b)
		}
		a.boot(t)
		for _, r := range relations {
			r.requireOusted(t, a)
			r.failBack(t, b, a)
			r.end(t, a)
			r.judge(t)
		}
	}
	w.noSplitBrain(t)
	for _, r := range relations {
		r.remove(t, a)
	}
}

// failOver promotes without force, and uses the volumes.
func (r *relation) failOver(t *testing.T, to *site) {
	t.Helper()
	called := time.Now()
	require.NoError(t, r.promote(t.Context(), to, false))
	t.Logf("the role is at %s after %s", to.name, time.Since(called).Round(time.Millisecond))
	r.use(t, to)
	t.Logf("used at %s after %s", to.name, time.Since(called).Round(time.Millisecond))
}

// requireOusted requires that a site which lost the role can neither take it nor use anything.
func (r *relation) requireOusted(t *testing.T, s *site) {
	t.Helper()
	r.requireRefused(t, s, false, codes.Aborted)
	r.requireRefused(t, s, true, codes.Aborted)
	v := r.volumes[s][0]
	err := s.answered(t, func(ctx context.Context, turn uint64) error {
		_, err := s.controllers[turn].ControllerPublishVolume(ctx, s.publishRequest(v, s.host(t, v)))
		return err
	})
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
}

// failBack brings a site that lost the role up to date, as its orchestrator asks for it, and gives it the role.
func (r *relation) failBack(t *testing.T, from, to *site) {
	t.Helper()
	require.NoError(t, r.demote(t.Context(), to))
	r.awaitReady(t, to, true)
	r.awaitStatus(t, from, replication.GetVolumeReplicationInfoResponse_HEALTHY)
	r.relocate(t, from, to)
}

// After a failover the former site's orchestrator gives up what it had, and is answered OK: nothing of what the other
// one uses changes. It claims the volumes anew later, and gets the role back (S37).
func TestS37_S38_TheFormerSiteDeletesWhatItHad(t *testing.T) {
	w, a, b := newSites(t)
	r := newGroupRelation(t, a, b, "disown", 2)
	r.use(t, a)
	a.losePower(t)
	r.gone()
	require.NoError(t, r.promote(t.Context(), b, false))
	r.use(t, b)
	a.boot(t)
	require.NoError(t, r.demote(t.Context(), a))
	r.awaitReady(t, a, true)
	r.endWriting(t)
	before := r.sumsAt(t, b)
	r.disown(t, a)
	require.Equal(t, before, r.sumsAt(t, b), "what %s uses is what it was", b.name)
	w.awaitCleanAudit(t)
	r.awaitInSync(t)
	r.unstage(t, b)
	r.createGroup(t, a, "disown-again")
	require.NoError(t, r.enable(t.Context(), a))
	r.failBack(t, b, a)
	r.end(t, a)
	r.judge(t)
	r.disown(t, b)
	r.remove(t, a)
}

// endWriting ends the writer; the volumes stay in use.
func (r *relation) endWriting(t *testing.T) {
	t.Helper()
	require.Empty(t, r.writer.stop(t).Error)
	r.gone()
}

// disown is what the orchestrator of a site that is not primary does at the end of its replication.
func (r *relation) disown(t *testing.T, s *site) {
	t.Helper()
	require.NoError(t, r.disable(t.Context(), s))
	if r.group != "" {
		r.leaveGroup(t, s)
	}
	for _, v := range r.volumes[s] {
		require.NoError(t, s.callAnyController(t.Context(), "delete "+v.name, func(ctx context.Context, c csi.ControllerClient) error {
			_, err := c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.id})
			return err
		}))
	}
}

// sumsAt are the checksums of the volumes as a site's workloads read them.
func (r *relation) sumsAt(t *testing.T, s *site) (all []string) {
	t.Helper()
	for _, v := range r.volumes[s] {
		all = append(all, r.w.sumOf(t, s.host(t, v), v, v.path()))
	}
	return all
}

// sumOf is the checksum of a volume, or of a replica's own device, which may be a little larger.
func (w *env) sumOf(t *testing.T, node string, v *volume, path string) string {
	t.Helper()
	return strings.Join(w.scanOf(t, node, path, v.size).Sums, " ")
}

// awaitCleanAudit waits until an audit finds nothing.
func (w *env) awaitCleanAudit(t *testing.T) {
	t.Helper()
	w.awaitKept(t, "")
}
