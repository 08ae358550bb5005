package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/isolated"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/netns"
)

// cut puts a shape in force, heals it at the end and says how many packets it cost.
func cut(ctx context.Context, s *Scene, member string, shape netns.Shape) (*Injection, error) {
	all := s.Cluster.Members()
	before, _ := dropped(ctx, all)
	if err := s.Cluster.Net().Apply(ctx, shape); err != nil {
		return nil, err
	}
	packets := 0
	return &Injection{Member: member, Said: "cut " + shape.String(), Felt: func() bool { return packets > 0 }, End: func(ctx context.Context) (string, error) {
		err := s.Cluster.Net().Heal(ctx)
		after, _ := dropped(ctx, all)
		packets = after - before
		return fmt.Sprintf("%d packets were dropped", packets), err
	}}, nil
}

func partitionOne(ctx context.Context, s *Scene) (*Injection, error) {
	all := s.Cluster.Members()
	m := pick(s, all)
	return cut(ctx, s, m.ID, netns.Isolate(hostsOf(all), m.Host()))
}

func partitionLeader(ctx context.Context, s *Scene) (*Injection, error) {
	m := s.leader(ctx)
	if m == nil {
		return nil, nil //nolint:nilnil // nobody leads
	}
	return cut(ctx, s, m.ID, netns.Isolate(hostsOf(s.Cluster.Members()), m.Host()))
}

// partitionHalves has a minority and a majority of all members, wherever the controllers are.
func partitionHalves(ctx context.Context, s *Scene) (*Injection, error) {
	all := s.shuffled(s.Cluster.Members())
	return cut(ctx, s, "", netns.Between(hostsOf(all[:len(all)/2]), hostsOf(all[len(all)/2:])))
}

// partitionBridge has another than the leader in the middle: two followers say nothing to each other.
func partitionBridge(ctx context.Context, s *Scene) (*Injection, error) {
	all := s.shuffled(s.Cluster.Controllers())
	middle := pick(s, without(all, s.leader(ctx)))
	return cut(ctx, s, middle.ID, netns.Bridge(hostsOf(all), middle.Host()))
}

func partitionRing(ctx context.Context, s *Scene) (*Injection, error) {
	return cut(ctx, s, "", netns.Ring(hostsOf(s.shuffled(s.Cluster.Members()))))
}

// partitionOneWay has a member heard by nobody, or hear nobody; or one direction between two fail.
func partitionOneWay(ctx context.Context, s *Scene) (*Injection, error) {
	m := s.leaderOrAny(ctx)
	one, all := hostsOf([]*isolated.Member{m}), hostsOf(s.Cluster.Members())
	switch s.Rand.IntN(3) {
	case 0:
		return cut(ctx, s, m.ID, netns.OneWay(one, all))
	case 1:
		return cut(ctx, s, m.ID, netns.OneWay(all, one))
	}
	return cut(ctx, s, m.ID, netns.OneWay(one, hostsOf(s.shuffled(without(s.Cluster.Controllers(), m))[:1])))
}

// flapping cuts and heals a member again and again.
func flapping(ctx context.Context, s *Scene) (*Injection, error) {
	all := s.Cluster.Members()
	m := s.leaderOrAny(ctx)
	before, _ := dropped(ctx, all)
	shape := netns.Isolate(hostsOf(all), m.Host())
	down, up := s.between(20*time.Millisecond, time.Second), s.between(20*time.Millisecond, time.Second)
	stop, stopped := context.WithCancel(context.WithoutCancel(ctx))
	type flaps struct {
		count int
		err   error
	}
	ended := make(chan flaps, 1)
	go func() {
		f := flaps{}
		for stop.Err() == nil && f.err == nil {
			f.err = s.Cluster.Net().Apply(context.WithoutCancel(ctx), shape)
			f.count++
			sleep(stop, down)
			if f.err == nil {
				f.err = s.Cluster.Net().Heal(context.WithoutCancel(ctx))
			}
			sleep(stop, up)
		}
		ended <- f
	}()
	packets, said := 0, fmt.Sprintf("%s is cut off for %s and not for %s", m.ID, down, up)
	return &Injection{Member: m.ID, Said: said, Felt: func() bool { return packets > 0 }, End: func(ctx context.Context) (string, error) {
		stopped()
		f := <-ended
		after, _ := dropped(ctx, all)
		packets = after - before
		return fmt.Sprintf("it was cut off %d times, %d packets were dropped", f.count, packets), f.err
	}}, nil
}

// sleep waits, or until the context ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// reset resets the live connections of a member.
func reset(ctx context.Context, s *Scene) (*Injection, error) {
	m := s.leaderOrAny(ctx)
	n, err := m.Host().Reset(ctx)
	return &Injection{Member: m.ID, Said: "reset the connections of " + m.ID, Felt: func() bool { return n > 0 }, End: func(context.Context) (string, error) {
		return fmt.Sprintf("%d connections were reset", n), nil
	}}, err
}

// drop has a member lose single packets.
func drop(ctx context.Context, s *Scene) (*Injection, error) {
	m, percent := s.leaderOrAny(ctx), pick(s, []int{1, 5, 20, 50})
	of := []*isolated.Member{m}
	_, before := dropped(ctx, of)
	if err := m.Host().Lose(ctx, percent); err != nil {
		return nil, err
	}
	packets, said := 0, fmt.Sprintf("%s loses %d of 100 packets", m.ID, percent)
	return &Injection{Member: m.ID, Said: said, Felt: func() bool { return packets > 0 }, End: func(ctx context.Context) (string, error) {
		err := m.Host().Lose(ctx, 0)
		_, after := dropped(ctx, of)
		packets = after - before
		return fmt.Sprintf("%d packets were lost", packets), err
	}}, nil
}
