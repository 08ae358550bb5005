package faults

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/isolated"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/netns"
)

// Injector does one kind of fault. Begin answers a nil Injection without an error where the cluster is not as the fault needs it,
// such as without a leader; the campaign then takes another kind.
type Injector struct {
	Fault catalog.Fault
	Begin func(context.Context, *Scene) (*Injection, error)
}

// Injection is a fault that is under way.
type Injection struct {
	Member string // whom it befell; empty: several
	Said   string // what was done
	// End ends it, and says what came of it. It may be called when the member's process has ended in the meantime.
	End func(context.Context) (string, error)
	// Felt tells after End whether anything met it; nil: it is certain. What nothing met does not count as injected.
	Felt func() bool
}

// Scene is what an injector acts on, and what it chooses by.
type Scene struct {
	Cluster *isolated.Cluster
	Rand    *rand.Rand
}

// pick chooses one.
func pick[T any](s *Scene, of []T) T { return of[s.Rand.IntN(len(of))] }

// between chooses a duration.
func (s *Scene) between(low, high time.Duration) time.Duration {
	return low + time.Duration(s.Rand.Int64N(int64(high-low)))
}

// leader is the controller that leads, as the members say now; nil when they know none.
func (s *Scene) leader(ctx context.Context) *isolated.Member {
	now, err := s.Cluster.View().Status(ctx)
	if err != nil || now.Leader == "" {
		return nil
	}
	return s.Cluster.Member(now.Leader)
}

// leaderOrAny is the leader half of the time, else any controller.
func (s *Scene) leaderOrAny(ctx context.Context) *isolated.Member {
	if s.Rand.IntN(2) == 0 {
		if m := s.leader(ctx); m != nil {
			return m
		}
	}
	return pick(s, s.Cluster.Controllers())
}

// shuffled are members in an order of the seed's.
func (s *Scene) shuffled(of []*isolated.Member) []*isolated.Member {
	s.Rand.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
	return of
}

// dropped is how many packets members' hosts did not hear because of shapes, and how many they lost one by one.
func dropped(ctx context.Context, members []*isolated.Member) (cut, lost int) {
	for _, m := range members {
		c, l, err := m.Host().Dropped(ctx)
		if err == nil { // it only counts
			cut, lost = cut+c, lost+l
		}
	}
	return cut, lost
}

// idsOf names members.
func idsOf(members []*isolated.Member) string {
	var ids []string
	for _, m := range members {
		ids = append(ids, m.ID)
	}
	return strings.Join(ids, ",")
}

func hostsOf(members []*isolated.Member) []*netns.Host { return isolated.Hosts(members) }
