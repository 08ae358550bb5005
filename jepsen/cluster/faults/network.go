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
	before := dropped(ctx, all)
	if err := s.Cluster.Net().Apply(ctx, shape); err != nil {
		return nil, err
	}
	return &Injection{Member: member, Said: "cut " + shape.String(), End: func(ctx context.Context) (string, error) {
		err := s.Cluster.Net().Heal(ctx)
		return fmt.Sprintf("%d packets were dropped", dropped(ctx, all)-before), err
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

func partitionBridge(ctx context.Context, s *Scene) (*Injection, error) {
	all := s.shuffled(s.Cluster.Controllers())
	return cut(ctx, s, all[0].ID, netns.Bridge(hostsOf(all), all[0].Host()))
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
	return cut(ctx, s, m.ID, netns.OneWay(one, hostsOf(s.shuffled(s.Cluster.Controllers())[:1])))
}

// flapping cuts and heals a member again and again.
func flapping(ctx context.Context, s *Scene) (*Injection, error) {
	all := s.Cluster.Members()
	m, before := s.leaderOrAny(ctx), dropped(ctx, all)
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
	return &Injection{Member: m.ID, Said: fmt.Sprintf("%s is cut off for %s and not for %s", m.ID, down, up), End: func(ctx context.Context) (string, error) {
		stopped()
		f := <-ended
		return fmt.Sprintf("it was cut off %d times, %d packets were dropped", f.count, dropped(ctx, all)-before), f.err
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
	return &Injection{Member: m.ID, Said: "reset the connections of " + m.ID, End: func(context.Context) (string, error) {
		return fmt.Sprintf("%d connections were reset", n), nil
	}}, err
}

// drop has a member lose single packets.
func drop(ctx context.Context, s *Scene) (*Injection, error) {
	m, percent := s.leaderOrAny(ctx), pick(s, []int{1, 5, 20, 50})
	of := []*isolated.Member{m}
	before := dropped(ctx, of)
	if err := m.Host().Lose(ctx, percent); err != nil {
		return nil, err
	}
	return &Injection{Member: m.ID, Said: fmt.Sprintf("%s loses %d of 100 packets", m.ID, percent), End: func(ctx context.Context) (string, error) {
		err := m.Host().Lose(ctx, 0)
		return fmt.Sprintf("%d packets were lost", dropped(ctx, of)-before), err
	}}, nil
}
