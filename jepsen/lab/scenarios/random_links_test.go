package scenarios

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// anyReplicated is one of the volumes with two replicas.
func (r *randomRun) anyReplicated() *subject {
	for {
		if s := r.subjects[r.rng.IntN(len(r.subjects))]; s.replicated() {
			return s
		}
	}
}

// pair is a volume with two replicas, and its hosts' guests: that of its user first.
func (r *randomRun) pair() (s *subject, user, peer int) {
	s = r.anyReplicated()
	return s, r.guest(s.user()).Index, r.guest(s.peer(s.user())).Index
}

// must fails the run, for a fault that could not be begun or ended: the lab's failure.
func (r *randomRun) must(err error) { require.NoError(r.t, err, "%s", r.since()) }

// awaitCut waits until the user's kernel lost its peer.
func (r *randomRun) awaitCut(s *subject) {
	r.awaitKernel(r.t, s.v, s.holder, timeout, "its connection is lost", func(d drbdState) bool { return d.connection != "Connected" })
}

func (r *randomRun) cutReplication() (string, func()) {
	s, user, peer := r.pair()
	r.must(r.lab.Partition(r.t.Context(), lab.Replication, []int{user}, []int{peer}))
	r.awaitCut(s)
	return fmt.Sprintf("n%d, n%d", user, peer), func() { r.join(user, peer) }
}

// join ends a partition of the replication network between two guests.
func (r *randomRun) join(one, other int) {
	r.must(r.lab.Unblock(r.t.Context(), lab.Replication, one, other))
	r.must(r.lab.Unblock(r.t.Context(), lab.Replication, other, one))
}

func (r *randomRun) cutOneWay() (string, func()) {
	s, from, to := r.pair()
	if r.rng.IntN(2) == 0 {
		from, to = to, from
	}
	r.must(r.lab.Block(r.t.Context(), lab.Replication, from, to))
	r.awaitCut(s)
	return fmt.Sprintf("n%d to n%d", from, to), func() { r.must(r.lab.Unblock(r.t.Context(), lab.Replication, from, to)) }
}

// flap loses the link some times: the first time until the kernel noticed, then for as long as it happens to be.
func (r *randomRun) flap() (string, func()) {
	s, user, peer := r.pair()
	for i := range 3 + r.rng.IntN(4) {
		r.must(r.lab.Partition(r.t.Context(), lab.Replication, []int{user}, []int{peer}))
		if i == 0 {
			r.awaitCut(s)
		}
		r.dwell()
		r.join(user, peer)
		r.dwell()
	}
	return fmt.Sprintf("n%d, n%d", user, peer), nil
}

// interruptResync cuts a synchronisation in its middle: slowed down, it does not end before.
func (r *randomRun) interruptResync() (string, func()) {
	s, user, peer := r.pair()
	cut := func() { r.must(r.lab.Partition(r.t.Context(), lab.Replication, []int{user}, []int{peer})) }
	cut()
	r.awaitKernel(r.t, s.v, s.holder, timeout, "it goes on alone", func(d drbdState) bool { return d.connection != "Connected" && !d.suspended })
	r.mustExec(r.t, s.holder, s.fill())
	nodes := []string{s.holder, s.peer(s.holder)}
	for _, n := range nodes {
		r.limitResyncRate(r.t, s.v, n, "256K")
	}
	r.join(user, peer)
	r.awaitKernel(r.t, s.v, nodes[1], timeout, "it is being synchronised", func(d drbdState) bool { return d.connection == "SyncTarget" })
	r.dwell()
	cut()
	r.awaitKernel(r.t, s.v, nodes[1], timeout, "the synchronisation is interrupted", func(d drbdState) bool { return d.connection != "SyncTarget" })
	return fmt.Sprintf("n%d, n%d", user, peer), func() {
		for _, n := range nodes {
			_ = run(r.t.Context(), r.guest(n), fmt.Sprintf("drbdadm disk-options --c-plan-ahead=0 --resync-rate=100M %s", s.v.id)) // its kernel may be another one by now
		}
		r.join(user, peer)
	}
}

// fill writes much, and not into the ring.
func (s *subject) fill() string {
	if s.v.block {
		return fmt.Sprintf("dd if=/dev/urandom of=%s bs=1M seek=8 count=12 oflag=direct conv=notrunc 2>/dev/null", s.v.target())
	}
	return fmt.Sprintf("dd if=/dev/urandom of=%s/fill bs=1M count=12 conv=fsync 2>/dev/null", s.v.target())
}

func (r *randomRun) cutBoth() (string, func()) {
	s, user, _ := r.pair()
	for _, n := range []lab.Network{lab.Replication, lab.API} {
		r.must(r.lab.Isolate(r.t.Context(), n, user))
	}
	r.awaitCut(s)
	return fmt.Sprintf("n%d", user), func() { r.reconnect(user, lab.Replication, lab.API) }
}

func (r *randomRun) reconnect(guest int, networks ...lab.Network) {
	for _, n := range networks {
		r.must(r.lab.Reconnect(r.t.Context(), n, guest))
	}
}

func (r *randomRun) cutControl() (string, func()) {
	return r.isolateFromControllers(1 + r.rng.IntN(len(r.lab.Guests())))
}

func (r *randomRun) cutLeader() (string, func()) { return r.isolateFromControllers(r.leader()) }

// leader is the guest of the leader; without one, any.
func (r *randomRun) leader() int {
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	if leader, err := r.cluster.Leader(ctx); err == nil {
		return leader
	}
	return 1 + r.rng.IntN(len(r.lab.Guests()))
}

func (r *randomRun) isolateFromControllers(guest int) (string, func()) {
	g := r.lab.Guest(guest)
	r.must(r.lab.Isolate(r.t.Context(), lab.API, guest))
	eventually(r.t, timeout, g.Name()+" reaches no controller", func(ctx context.Context) error {
		out, code, err := g.Exec(ctx, r.dialOthers(guest))
		if err == nil && code != 0 {
			err = errors.New(strings.TrimSpace(out))
		}
		return err
	})
	return g.Name(), func() { r.reconnect(guest, lab.API) }
}

// dialOthers fails when one of the other guests answers on the network of the controllers.
func (r *randomRun) dialOthers(guest int) string {
	var script strings.Builder
	for _, g := range r.lab.Guests() {
		if g.Index != guest {
			fmt.Fprintf(&script, "! timeout 2 bash -c '</dev/tcp/%s/9802' 2>/dev/null || { echo it reaches %s; exit 1; }\n", g.IP(lab.API), g.Name())
		}
	}
	return script.String()
}
