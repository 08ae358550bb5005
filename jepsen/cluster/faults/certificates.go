package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/isolated"
)

// shortValidity is of certificates that run out while they are used; usual is of those that replace them.
const (
	shortValidity = 8 * time.Second
	usual         = 24 * time.Hour
)

// certExpiry gives some members certificates that run out, waits for that, and ends their connections so that they are needed. At
// the end the members get good ones, which they take up without a restart.
func certExpiry(ctx context.Context, s *Scene) (*Injection, error) {
	some := s.shuffled(s.Cluster.Members())
	some = some[:1+s.Rand.IntN(len(some))]
	var last time.Time
	for _, m := range some {
		at, err := m.Issue(ctx, shortValidity)
		if err != nil {
			return nil, err
		}
		last = at
	}
	taken := present(ctx, some)
	sleep(ctx, time.Until(last)+time.Second)
	for _, m := range some {
		if _, err := m.Host().Reset(ctx); err != nil {
			return nil, err
		}
	}
	said := fmt.Sprintf("the certificates of %s ran out; %d controllers had taken theirs up", idsOf(some), taken)
	return &Injection{Said: said, End: func(ctx context.Context) (string, error) {
		var errs []error
		for _, m := range some {
			_, err := m.Issue(ctx, usual)
			errs = append(errs, err)
		}
		return "they are renewed", errors.Join(errs...)
	}}, nil
}

// present counts the controllers that use the certificate that they were given.
func present(ctx context.Context, members []*isolated.Member) (n int) {
	ctx, cancel := context.WithTimeout(ctx, shortValidity)
	defer cancel()
	for _, m := range members {
		if !m.Controls() {
			continue
		}
		if shown, err := m.Presents(ctx); err == nil && shown {
			n++
		}
	}
	return n
}
