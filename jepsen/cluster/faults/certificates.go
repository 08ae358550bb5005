package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/isolated"
)

// usual is how long the certificates are valid that replace those that ran out.
const usual = 24 * time.Hour

// validities are those of certificates that run out while they are used. A machine may be too slow for one: it runs out before a process takes it
// up, which refuses it and goes on with the one that it has. The next is tried then.
var validities = []time.Duration{8 * time.Second, 32 * time.Second, 128 * time.Second}

// certExpiry gives some members certificates that run out, waits for that, and ends their connections so that they are needed. At
// the end the members get good ones, which they take up without a restart. Only a controller shows which one it uses: there is one at least.
func certExpiry(ctx context.Context, s *Scene) (*Injection, error) {
	some := s.shuffled(s.Cluster.Members())
	some = some[:1+s.Rand.IntN(len(some))]
	if !slices.ContainsFunc(some, (*isolated.Member).Controls) {
		some = append(some, pick(s, s.Cluster.Controllers()))
	}
	taken, last, err := issueShort(ctx, some)
	i := &Injection{Said: fmt.Sprintf("the certificates of %s ran out; %d controllers had taken theirs up", idsOf(some), taken),
		Felt: func() bool { return taken > 0 },
		End:  func(ctx context.Context) (string, error) { return "they are renewed", issue(ctx, some) }}
	if err != nil {
		return i, err
	}
	sleep(ctx, time.Until(last)+time.Second)
	for _, m := range some {
		if _, err := m.Host().Reset(ctx); err != nil {
			return i, err
		}
	}
	return i, nil
}

// issueShort gives members certificates that run out soon, until a controller uses one. It answers how many do, and when the last runs out.
func issueShort(ctx context.Context, members []*isolated.Member) (taken int, last time.Time, err error) {
	for _, validity := range validities {
		for _, m := range members {
			if last, err = m.Issue(ctx, validity); err != nil {
				return 0, last, err
			}
			if uses(ctx, m, validity) {
				taken++
			}
		}
		if taken > 0 {
			break
		}
	}
	return taken, last, nil
}

// uses tells whether a controller uses the certificate that it was given; nobody knows of a node.
func uses(ctx context.Context, m *isolated.Member, validity time.Duration) bool {
	if !m.Controls() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, validity)
	defer cancel()
	shown, err := m.Presents(ctx)
	return err == nil && shown
}

// issue gives members good certificates.
func issue(ctx context.Context, members []*isolated.Member) error {
	var errs []error
	for _, m := range members {
		_, err := m.Issue(ctx, usual)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
