package scenarios

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// measureMove: from the call that demotes a site until the volume is mounted at the other, in order, with nothing in
// between that lags.
func measureMove(t *testing.T, _ *env, found *table) {
	_, a, b := newSites(t)
	r := newRelation(t, a, b, "move", false)
	r.stage(t, a)
	from, to := a, b
	for range 2 * *samples {
		r.awaitInSync(t)
		r.unstage(t, from)
		began := time.Now()
		require.NoError(t, r.demote(t.Context(), from))
		require.NoError(t, r.promote(t.Context(), to, false))
		found.row("sites: planned move, from Demote until promoted", "s").addDuration(time.Since(began))
		r.stage(t, to)
		found.row("sites: planned move, from Demote until mounted", "s").below(6).addDuration(time.Since(began))
		from, to = to, from
	}
	r.unstage(t, from)
	r.remove(t, from)
}

// groupOfFigures is how many members a group has whose move is compared with that of one volume.
const groupOfFigures = 8

// measureGroupMove: a group moves with all its members, beside one volume in the same run.
func measureGroupMove(t *testing.T, _ *env, found *table) {
	_, a, b := newSites(t)
	one, group := newRelation(t, a, b, "move-one", false), newGroupRelation(t, a, b, "move-group", groupOfFigures)
	one.useAll(t, a)
	group.useAll(t, a)
	from, to := a, b
	for range 2 * *samples {
		role, mounted := one.moveAll(t, from, to)
		groupRole, groupMounted := group.moveAll(t, from, to)
		found.row("sites: role of one volume, Demote and Promote", "s").addDuration(role)
		found.row(fmt.Sprintf("sites: role of a group of %d, Demote and Promote", groupOfFigures), "s").addDuration(groupRole)
		found.row(fmt.Sprintf("sites: role of a group of %d / of one volume", groupOfFigures), "x").below(2).add(groupRole.Seconds() / role.Seconds())
		found.row(fmt.Sprintf("sites: planned move of a group of %d, from Demote until all are mounted", groupOfFigures), "s").addDuration(groupMounted)
		found.row(fmt.Sprintf("sites: planned move until mounted, a group of %d / one volume", groupOfFigures), "x").add(groupMounted.Seconds() / mounted.Seconds())
		from, to = to, from
	}
	one.remove(t, from)
	group.disown(t, to)
	group.remove(t, from)
}

// useAll publishes and stages all members concurrently at a site, as kubelets do, and ends that.
func (r *relation) useAll(t *testing.T, s *site) {
	t.Helper()
	r.stageAll(t, s)
	require.NoError(t, r.w.eachOf(r.volumes[s], func(v *volume) error {
		if err := s.unstage(t.Context(), v, s.host(t, v)); err != nil {
			return err
		}
		return s.unpublish(t.Context(), v, s.host(t, v))
	}))
}

func (r *relation) stageAll(t *testing.T, s *site) {
	t.Helper()
	require.NoError(t, r.w.eachOf(r.volumes[s], func(v *volume) error {
		if err := s.publish(t.Context(), v, s.host(t, v)); err != nil {
			return err
		}
		return s.stage(t.Context(), v, s.host(t, v))
	}))
}

// moveAll moves the role from a site that has just used the volumes, and uses them at the other one.
func (r *relation) moveAll(t *testing.T, from, to *site) (role, mounted time.Duration) {
	t.Helper()
	r.awaitInSync(t)
	began := time.Now()
	require.NoError(t, r.demote(t.Context(), from))
	require.NoError(t, r.promote(t.Context(), to, false))
	role = time.Since(began)
	r.stageAll(t, to)
	mounted = time.Since(began)
	r.useAll(t, to)
	return role, mounted
}

// measureSiteLoss: a site loses its power under a writer. The first figure has in it how long the log waits until it
// calls a host unreachable.
func measureSiteLoss(t *testing.T, _ *env, found *table) {
	_, a, b := newSites(t)
	r := newRelation(t, a, b, "loss", false)
	for range *samples {
		r.use(t, a)
		a.losePower(t)
		crashed := time.Now()
		r.gone()
		var promoted time.Time // when the call was made that was not refused
		require.NoError(t, b.replicate(t.Context(), "promote", func(ctx context.Context, c replication.ControllerClient) error {
			promoted = time.Now()
			return r.promoteOnce(ctx, c, b, false)
		}))
		r.stage(t, b)
		found.row("sites: power loss of a site until mounted at the other", "s").addDuration(time.Since(crashed))
		found.row("sites: the same, from the Promote that was not refused", "s").below(4).addDuration(time.Since(promoted))
		r.beginTurn(t, b)
		a.boot(t)
		r.failBack(t, b, a)
		r.end(t, a)
	}
	r.judge(t)
	r.remove(t, a)
}

// measureSync: the rates of the first synchronisation of a volume that is converted, and of one after an absence,
// beside bare DRBD with the same options on the same pools.
func measureSync(t *testing.T, _ *env, found *table) {
	w, a, b := newSites(t)
	for range *samples {
		r := newPlain(t, a, b, "sync", pathSize)
		r.fillPlain(t, a)
		enabled := make(chan error, 1)
		go func() { enabled <- r.enable(t.Context(), a) }()
		r.learnCopy(t, a, b)
		v := r.volumes[a][0]
		na, nb := a.host(t, v), b.host(t, r.volumes[b][0])
		first := w.syncRate(t, pathSize, func() (bool, bool) { return w.isSyncing(t, v, nb) })
		require.NoError(t, <-enabled)
		r.claim(t)
		r.stage(t, a)
		a.cutOff(t, lab.Replication)
		w.awaitKernel(t, v, na, timeout, "it goes on alone", goesOnAlone)
		w.mustExec(t, na, fmt.Sprintf("dd if=/dev/zero of=%s bs=1M count=%d oflag=direct 2>/dev/null", v.target(), deltaBytes/mi))
		w.reconnect(t)
		delta := w.syncRate(t, deltaBytes, func() (bool, bool) { return w.isSyncing(t, v, nb) })
		r.unstage(t, a)
		bareFirst, bareDelta := w.measureBareSync(t, v, na, nb)
		for _, x := range []struct {
			name         string
			volume, bare float64
		}{{fmt.Sprintf("first synchronisation of %d MiB", pathSize/mi), first, bareFirst}, {fmt.Sprintf("synchronisation of %d MiB after an absence", deltaBytes/mi), delta, bareDelta}} {
			found.row("sites: "+x.name, "MiB/s").add(x.volume)
			found.row("bare DRBD: "+x.name, "MiB/s").add(x.bare)
			found.row("sites / bare DRBD: "+x.name, "x").add(x.volume / x.bare)
		}
		r.remove(t, a)
	}
}

// deltaBytes are written while the peer is away.
const deltaBytes = 96 * mi

// isSyncing tells whether a host is a target, and whether it was one that is done.
func (w *env) isSyncing(t *testing.T, v *volume, node string) (syncing, done bool) {
	t.Helper()
	d, err := w.kernel(t.Context(), v, node)
	require.NoError(t, err)
	return d.connection == "SyncTarget", isUpToDate(d)
}

// syncRate waits for the begin and the end of a synchronisation.
func (w *env) syncRate(t *testing.T, bytes int64, look func() (syncing, done bool)) float64 {
	t.Helper()
	var began time.Time
	eventually(t, resyncTimeout, "it is synchronised", func(context.Context) error {
		syncing, done := look()
		if syncing && began.IsZero() {
			began = time.Now()
		}
		if done && !began.IsZero() {
			return nil
		}
		return fmt.Errorf("it is being synchronised: %t", syncing)
	})
	return float64(bytes/mi) / time.Since(began).Seconds()
}

// measureBareSync is the same of DRBD that was set up by hand, without what decides who may go on alone.
func (w *env) measureBareSync(t *testing.T, v *volume, na, nb string) (first, delta float64) {
	t.Helper()
	device := w.createBareDRBD(t, v)
	for _, node := range []string{na, nb} {
		w.mustExec(t, node, "sed -i 's/fencing .*/fencing dont-care;/' /etc/drbd.d/bare.res; drbdadm adjust bare")
	}
	look := func() (syncing, done bool) {
		text, err := w.guest(nb).Get(t.Context(), "/proc/drbd")
		require.NoError(t, err)
		d := stateOfMinor(string(text), "900")
		return d.connection == "SyncTarget", isUpToDate(d)
	}
	w.mustExec(t, na, fmt.Sprintf("dd if=/dev/urandom of=%s bs=1M count=%d oflag=direct 2>/dev/null", device, pathSize/mi))
	w.mustExec(t, nb, "drbdadm invalidate bare")
	first = w.syncRate(t, pathSize, look)
	w.mustExec(t, na, fmt.Sprintf("drbdadm disconnect bare; dd if=/dev/zero of=%s bs=1M count=%d oflag=direct 2>/dev/null; drbdadm connect bare", device, deltaBytes/mi))
	w.mustExec(t, nb, "drbdadm connect bare 2>/dev/null || true")
	delta = w.syncRate(t, deltaBytes, look)
	require.NoError(t, w.removeBareDRBD(t.Context()))
	return first, delta
}

// measureSitesPath compares a volume that is replicated between sites with one that has two replicas, in the same guests.
func measureSitesPath(t *testing.T, _ *env, found *table) {
	w, a, b := newSites(t)
	r := newRelationOf(t, a, b, "path", pathSize)
	v := &volume{name: fmt.Sprintf("pair-%d", w.count), size: pathSize, block: true}
	require.NoError(t, a.create(t.Context(), v, nil, map[string]string{"sites": "A,B", "site": a.name}))
	r.stage(t, a)
	require.NoError(t, a.publish(t.Context(), v, a.host(t, v)))
	require.NoError(t, a.stage(t.Context(), v, a.host(t, v)))
	devices := []string{r.volumes[a][0].target(), v.target()}
	for _, d := range devices { // a thin pool gives out blocks as they are written
		w.mustExec(t, a.host(t, v), fmt.Sprintf("dd if=/dev/zero of=%s bs=1M count=%d oflag=direct 2>/dev/null", d, pathSize/mi))
	}
	for _, depth := range []int{1, 16} {
		w.compare(t, found, pair{"a volume replicated between sites", "one of two replicas"}, devices, depth)
	}
	require.NoError(t, a.unstage(t.Context(), v, a.host(t, v)))
	require.NoError(t, a.unpublish(t.Context(), v, a.host(t, v)))
	require.NoError(t, a.delete(t.Context(), v))
	r.unstage(t, a)
	r.remove(t, a)
}
