// Package schedule has the leader write backups of the cluster's state to a target, again and again.
package schedule

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"filippo.io/age"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/backup"
	"github.com/holdfast-storage/holdfast/raftnode/backup/target"
)

// attemptTimeout bounds one backup: a target that hangs must not keep the next from being tried.
const attemptTimeout = 30 * time.Minute

// Member is the member whose state is backed up.
type Member interface {
	backup.Source
	Leadership() (leading bool, term uint64, changed <-chan struct{})
	Fork() *fsm.State
}

// Options say what is written, and when.
type Options struct {
	Member     Member
	Target     target.Target
	Name       string        // the controller's
	Interval   time.Duration // between full backups
	Increments time.Duration // between increments; 0: none
	Keep       int           // full backups of this incarnation that are kept, with their increments; 0: all
	Recipients []age.Recipient
	Logger     *slog.Logger
	Metrics    prometheus.Registerer
	Now        func() time.Time // time.Now when nil
}

// Scheduler writes backups while its member leads.
type Scheduler struct {
	Options
	lastSuccess, lastIndex prometheus.Gauge
	failures               prometheus.Counter
	inARow                 int // attempts without success
}

// New makes a scheduler and registers its metrics.
func New(o Options) (*Scheduler, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Scheduler{
		Options:     o,
		lastSuccess: prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_backup_last_success_timestamp_seconds", Help: "When this controller, or the leader before it, last wrote a backup; of the leader only."}),
		lastIndex:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_backup_index", Help: "The log index that the backups reach; of the leader only."}),
		failures:    prometheus.NewCounter(prometheus.CounterOpts{Name: "holdfast_backup_failures_total", Help: "Scheduled backups that failed."}),
	}
	for _, c := range []prometheus.Collector{s.lastSuccess, s.lastIndex, s.failures} {
		if err := o.Metrics.Register(c); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Run works until ctx ends. Failures are logged and counted, and tried again.
func (s *Scheduler) Run(ctx context.Context) error {
	for {
		leading, _, changed := s.Member.Leadership()
		if leading {
			s.attempt(ctx)
		}
		timer := time.NewTimer(s.pause())
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-changed:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// pause is how long it waits before it looks whether a backup is due: after failures one second at first, then longer.
func (s *Scheduler) pause() time.Duration {
	shortest := s.Interval
	if s.Increments > 0 {
		shortest = min(shortest, s.Increments)
	}
	usual := min(max(shortest/5, 100*time.Millisecond), time.Minute)
	if s.inARow == 0 {
		return usual
	}
	return min(usual, time.Second<<min(s.inARow-1, 6))
}

func (s *Scheduler) attempt(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	err := s.Once(limited)
	if err == nil || ctx.Err() != nil {
		s.inARow = 0
		return
	}
	s.inARow++
	if leading, _, _ := s.Member.Leadership(); !leading || errors.Is(err, errNotYet) {
		return // another one writes it, or this one a moment later
	}
	s.failures.Inc()
	s.Logger.Warn("a scheduled backup failed; it is tried again", "to", s.Target.String(), "error", err)
}

// errNotYet: this leader has yet to apply what the cluster has.
var errNotYet = errors.New("this leader has not applied everything yet")

// Once writes what is due now: it goes on with what the target has, whoever wrote it.
func (s *Scheduler) Once(ctx context.Context) error {
	cluster := s.Member.Fork().Cluster()
	if cluster.ID == "" {
		return errNotYet
	}
	names, err := s.Target.Names(ctx)
	if err != nil {
		return err
	}
	l := lineageOf(cluster, names)
	s.show(l.last)
	now := s.Now()
	switch {
	case l.last.Index > cluster.Index:
		return errNotYet
	case l.full.Kind == "" || now.Sub(l.full.Time) >= s.Interval:
		return s.writeFull(ctx, l)
	case l.last.Index == cluster.Index:
		s.lastSuccess.Set(float64(now.Unix())) // nothing has happened since
	case s.Increments > 0 && now.Sub(l.last.Time) >= s.Increments && l.last.Index < cluster.Index:
		return s.writeIncrement(ctx, l)
	}
	return nil
}

func (s *Scheduler) show(last target.Name) {
	if last.Kind != "" {
		s.lastSuccess.Set(float64(last.Time.Unix()))
		s.lastIndex.Set(float64(last.Index))
	}
}

func (s *Scheduler) writeFull(ctx context.Context, l lineage) error {
	name, err := s.put(ctx, backup.Request{})
	if err != nil {
		return err
	}
	s.show(name)
	if len(l.all) > 0 && !l.all[0].SameLife(name) {
		return nil // the incarnation was replaced just now: what is of the former one stays
	}
	return s.prune(ctx, append(l.all, name))
}

// writeIncrement writes a full backup instead where the journal of this member does not reach back.
func (s *Scheduler) writeIncrement(ctx context.Context, l lineage) error {
	name, err := s.put(ctx, backup.Request{Increment: true, Since: l.last.Index, Of: &l.of})
	if errors.Is(err, backup.ErrRefused) {
		s.Logger.Warn("no increment can be written, a full backup is", "since", l.last.Index, "why", err)
		return s.writeFull(ctx, l)
	}
	if err == nil {
		s.show(name)
	}
	return err
}

// put writes one backup. Its name needs the header, which is known before the first byte is.
func (s *Scheduler) put(ctx context.Context, r backup.Request) (name target.Name, err error) {
	r.Member, r.Now = s.Name, s.Now()
	p, err := backup.Prepare(ctx, s.Member, r)
	if err != nil {
		return name, err
	}
	name = target.NameOf(p.Header, len(s.Recipients) > 0)
	err = s.Target.Put(ctx, name.String(), func(w io.Writer) error {
		out, err := backup.Encrypt(w, s.Recipients)
		if err == nil {
			err = p.Write(ctx, out)
		}
		if err != nil {
			return err
		}
		return out.Close()
	})
	return name, err
}

// prune removes the oldest full backups of this incarnation and the increments that only they need. Those of
// other incarnations stay: what was decided before a restore may be wanted long after it.
func (s *Scheduler) prune(ctx context.Context, all []target.Name) error {
	if s.Keep == 0 {
		return nil
	}
	var full []target.Name
	for _, n := range all {
		if n.Kind == backup.Full {
			full = append(full, n)
		}
	}
	if len(full) <= s.Keep {
		return nil
	}
	slices.SortFunc(full, inOrder)
	oldest := full[len(full)-s.Keep]
	for _, n := range all {
		if n.Kind == backup.Full && inOrder(n, oldest) < 0 || n.Kind == backup.Increment && n.Index <= oldest.Index {
			if err := s.Target.Remove(ctx, n.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// inOrder is by what is in them; the clocks of leaders differ.
func inOrder(a, b target.Name) int {
	return cmp.Or(cmp.Compare(a.Index, b.Index), a.Time.Compare(b.Time))
}

// lineage is what a target has of one incarnation.
type lineage struct {
	of         backup.Header
	all        []target.Name
	full, last target.Name // the newest full one, and the end of the increments that continue it; zero without
}

func lineageOf(c fsm.Cluster, names []string) (l lineage) {
	l.of = backup.Describe(c)
	own := target.NameOf(l.of, false)
	for _, text := range names {
		n, ok := target.ParseName(text)
		if ok && n.SameLife(own) {
			l.all = append(l.all, n)
		}
	}
	slices.SortFunc(l.all, inOrder)
	for _, n := range l.all {
		if n.Kind == backup.Full {
			l.full, l.last = n, n
		}
	}
	for _, n := range l.all {
		if n.Kind == backup.Increment && n.Since <= l.last.Index && n.Index > l.last.Index {
			l.last = n
		}
	}
	return l
}
