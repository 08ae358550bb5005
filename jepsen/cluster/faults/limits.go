package faults

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/isolated"
)

// fewDescriptors lets a process open few more files than it has open.
func fewDescriptors(ctx context.Context, s *Scene) (*Injection, error) {
	m, more := s.leaderOrAny(ctx), s.Rand.IntN(6)
	open, err := m.LimitFiles(more)
	said := fmt.Sprintf("let %s open %d files more than its %d", m.ID, more, open)
	return limited(m, said, err)
}

// memoryLimit lets a process have little more memory than it has.
func memoryLimit(ctx context.Context, s *Scene) (*Injection, error) {
	m, more := s.leaderOrAny(ctx), int64(s.Rand.IntN(8)<<20)
	used, err := m.LimitMemory(more)
	said := fmt.Sprintf("let %s have %d KiB of memory more than its %d", m.ID, more>>10, used>>10)
	return limited(m, said, err)
}

// limited is the injection of a limit, which ends with the process or at the end.
func limited(m *isolated.Member, said string, err error) (*Injection, error) {
	if errors.Is(err, isolated.ErrNoProcess) {
		return nil, nil //nolint:nilnil // there is nothing to limit
	}
	pid := m.PID()
	return &Injection{Member: m.ID, Said: said, End: func(context.Context) (string, error) {
		came := "its process lives on"
		if m.PID() != pid {
			came = "its process ended with " + m.Exited()
		}
		return came, m.Unlimit()
	}}, err
}
