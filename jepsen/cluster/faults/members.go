package faults

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/isolated"
)

// membershipChange has a controller lose its disk and be replaced, or a new one join that is removed at the end.
func membershipChange(ctx context.Context, s *Scene) (*Injection, error) {
	if s.Rand.IntN(2) == 0 {
		return replaceMember(ctx, s)
	}
	m, err := s.Cluster.AddController(ctx)
	if err != nil {
		return nil, err
	}
	return &Injection{Member: m.ID, Said: "added " + m.ID, End: func(ctx context.Context) (string, error) {
		if err := s.Cluster.AwaitVoting(ctx); err != nil {
			return "", err
		}
		return "it voted, and was removed", s.Cluster.RemoveController(ctx, m)
	}}, nil
}

// replaceMember replaces one controller while the others are well: a member must never lose its disk where the others are
// no quorum.
func replaceMember(ctx context.Context, s *Scene) (*Injection, error) {
	m := pick(s, s.Cluster.Controllers())
	if err := s.Cluster.AwaitVoting(ctx); err != nil {
		return nil, err
	}
	if err := s.Cluster.ReplaceController(ctx, m); err != nil {
		return nil, err
	}
	return &Injection{Member: m.ID, Said: "replaced " + m.ID + ", which lost its disk", End: func(ctx context.Context) (string, error) {
		return "it votes again", s.Cluster.AwaitVoting(ctx)
	}}, nil
}

// behind is how many entries a follower misses until the others have none of them any more: the trailing logs and a threshold of
// isolated's flags.
const behind = 256

// snapshotStorm keeps a follower away until it can only be sent a Raft snapshot. How long that takes depends on what clients do.
func snapshotStorm(ctx context.Context, s *Scene) (*Injection, error) {
	leader := s.leader(ctx)
	if leader == nil {
		return nil, nil //nolint:nilnil // nobody leads
	}
	m := pick(s, without(s.Cluster.Controllers(), leader))
	if err := m.Kill(); err != nil {
		return nil, err
	}
	from := applied(ctx, s)
	if from == 0 {
		return nil, m.Start(ctx)
	}
	to := from
	err := harness.Poll(ctx, harness.Patience, m.ID+" to be behind", func() (bool, error) {
		to = max(to, applied(ctx, s))
		return to >= from+behind, fmt.Errorf("it misses %d entries of %d", to-from, behind)
	})
	return &Injection{Member: m.ID, Said: fmt.Sprintf("kept %s away for %d entries", m.ID, to-from), End: func(ctx context.Context) (string, error) {
		return "it is started", m.Start(ctx)
	}}, err
}

// applied is how far the member has applied that is furthest, zero when nobody says.
func applied(ctx context.Context, s *Scene) (most uint64) {
	now, err := s.Cluster.View().Status(ctx)
	if err != nil {
		return 0
	}
	for _, m := range now.Members {
		most = max(most, m.AppliedIndex)
	}
	return most
}

func without(members []*isolated.Member, one *isolated.Member) (rest []*isolated.Member) {
	for _, m := range members {
		if m != one {
			rest = append(rest, m)
		}
	}
	return rest
}
