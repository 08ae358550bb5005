package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/isolated"
)

// Config says what a campaign does.
type Config struct {
	Cluster   *isolated.Cluster
	Seed      uint64
	Injectors []Injector // All when empty; those of other packages are appended to it
	// Shortest and Longest are how long a fault lasts; 300 ms and 3 s when zero.
	Shortest, Longest time.Duration
	// Done is told of each fault that was felt when it ended; nil: of none.
	Done func(Record)
}

// Record is one fault that was.
type Record struct {
	Fault    catalog.Fault
	Member   string // empty: several
	Said     string // what was done
	Came     string // what came of it
	From, To time.Time
}

// Campaign breaks a cluster, step by step. It is not for concurrent use.
type Campaign struct {
	Config
	scene *Scene
	round []Injector // those that are still to come before any comes again
}

// NewCampaign makes a campaign that has done nothing.
func NewCampaign(cfg Config) *Campaign {
	if len(cfg.Injectors) == 0 {
		cfg.Injectors = All()
	}
	if cfg.Longest == 0 {
		cfg.Shortest, cfg.Longest = 300*time.Millisecond, 3*time.Second
	}
	return &Campaign{Config: cfg, scene: &Scene{Cluster: cfg.Cluster, Rand: rand.New(rand.NewPCG(cfg.Seed, 1))}}
}

// Rounded tells whether every injector has come at least once since the campaign, or its last round, began.
func (c *Campaign) Rounded() bool { return c.round != nil && len(c.round) == 0 }

// next is the injector that the seed chooses, and takes it out of the round.
func (c *Campaign) next() Injector {
	if len(c.round) == 0 {
		c.round = append([]Injector{}, c.Injectors...)
		c.scene.Rand.Shuffle(len(c.round), func(i, j int) { c.round[i], c.round[j] = c.round[j], c.round[i] })
	}
	one := c.round[0]
	c.round = c.round[1:]
	return one
}

// nextBeside is the next of this round that may be at once with another; one time in three, if there is one.
func (c *Campaign) nextBeside(other Injector) (Injector, bool) {
	if c.scene.Rand.IntN(3) != 0 {
		return Injector{}, false
	}
	i := slices.IndexFunc(c.round, func(one Injector) bool { return !clash(one, other) })
	if i < 0 || exclusive[other.Fault] {
		return Injector{}, false
	}
	one := c.round[i]
	c.round = slices.Delete(c.round, i, i+1)
	return one, true
}

// Step does one fault, or two at once, and ends them. Half of the time it then waits until all members serve, so that
// faults also meet a cluster that has not recovered.
func (c *Campaign) Step(ctx context.Context) error {
	one := c.next()
	first, err := c.begin(ctx, one)
	if err != nil {
		return errors.Join(err, c.end(first))
	}
	var second *running
	if other, ok := c.nextBeside(one); ok {
		sleep(ctx, c.scene.between(1, c.Longest))
		second, err = c.begin(ctx, other)
	}
	if err == nil {
		sleep(ctx, c.scene.between(c.Shortest, c.Longest))
	}
	if err := errors.Join(err, c.end(second), c.end(first)); err != nil {
		return err
	}
	if c.scene.Rand.IntN(2) == 0 {
		return c.Cluster.AwaitServing(ctx)
	}
	return nil
}

// running is a fault that is under way.
type running struct {
	injector  Injector
	injection *Injection
	began     time.Time
}

// begin begins a fault; nil when the cluster is not as it needs it.
func (c *Campaign) begin(ctx context.Context, i Injector) (*running, error) {
	began := time.Now()
	injection, err := i.Begin(ctx, c.scene)
	if err != nil {
		err = fmt.Errorf("begin %s: %w", i.Fault, err)
	}
	if injection == nil {
		return nil, err
	}
	return &running{i, injection, began}, err
}

// end ends a fault, also when the run's own time is over.
func (c *Campaign) end(r *running) error {
	if r == nil {
		return nil
	}
	came, err := r.injection.End(context.Background())
	if err != nil {
		return fmt.Errorf("end %s (%s): %w", r.injector.Fault, r.injection.Said, err)
	}
	if c.Done != nil && (r.injection.Felt == nil || r.injection.Felt()) {
		c.Done(Record{Fault: r.injector.Fault, Member: r.injection.Member, Said: r.injection.Said, Came: came, From: r.began, To: time.Now()})
	}
	return nil
}

// Heal ends whatever a step that failed may have left, and waits until all members serve and vote.
func (c *Campaign) Heal(ctx context.Context) error {
	errs := []error{c.Cluster.Net().Heal(ctx)}
	for _, m := range c.Cluster.Members() {
		errs = append(errs, m.Host().Lose(ctx, 0), m.Clear(ctx), m.Unlimit(), m.Resume(), m.Start(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("heal the cluster: %w", err)
	}
	if err := c.Cluster.AwaitServing(ctx); err != nil {
		return err
	}
	return c.Cluster.AwaitVoting(ctx)
}

// exclusive are faults beside which there is no other: those that wait for the cluster, and those of which two would undo each other.
var exclusive = map[catalog.Fault]bool{
	catalog.MembershipChange: true, catalog.RollingRestart: true, catalog.KillAll: true, catalog.CertExpiry: true, catalog.SnapshotStorm: true,
}

// network are the faults of which one ends what another began.
var network = map[catalog.Fault]bool{
	catalog.PartitionOne: true, catalog.PartitionLeader: true, catalog.PartitionHalves: true, catalog.PartitionBridge: true,
	catalog.PartitionRing: true, catalog.PartitionOneWay: true, catalog.NetworkFlapping: true,
	catalog.NetworkDelay: true, catalog.NetworkSlow: true, catalog.NetworkDuplicate: true,
}

// clash tells whether two faults cannot be at once.
func clash(a, b Injector) bool {
	return exclusive[a.Fault] || exclusive[b.Fault] || a.Fault == b.Fault || network[a.Fault] && network[b.Fault]
}
