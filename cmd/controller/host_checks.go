package controller

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/executor/hostcheck"
	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// hostChecks has hosts look at themselves, and judges what they show by the rules of this build.
type hostChecks struct {
	sessions *session.Members
	members  *adminCluster
	own      *hostcheck.Shared
}

func newHostChecks(c *controller, members *adminCluster) *hostChecks {
	return &hostChecks{sessions: c.members, members: members, own: &hostcheck.Shared{Gatherer: hostcheck.New(hostcheck.Config{
		Role: hostcheck.Controller, Version: daemon.Version(), DataDir: c.dataDir, Identity: store.Inspect,
		Cert: c.Files.Cert, Key: c.Files.Key, CA: c.Files.CA,
	})}}
}

// ownFacts are what this controller's host shows, and which other members it reaches.
func (h *hostChecks) ownFacts(ctx context.Context) ([]byte, error) {
	facts, err := h.own.Facts(ctx)
	if err != nil {
		return nil, err
	}
	m, err := h.members.member()
	if err != nil {
		return nil, err
	}
	facts.Reached = h.reach(ctx, m)
	if facts.RaftSyncs, err = raftSyncs(m); err != nil {
		return nil, err
	}
	return facts.Encode()
}

// reach asks every other member for its status, as a connection alone proves less.
func (h *hostChecks) reach(ctx context.Context, m *raftnode.Member) (all []hostcheck.Reach) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, p := range m.Peers() {
		if p.Self {
			continue
		}
		wg.Go(func() {
			sent := time.Now()
			_, err := askStatus(ctx, m, p, 0)
			r := hostcheck.Reach{Address: p.Addr, Took: time.Since(sent)}
			if err != nil {
				r.Err = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, r)
		})
	}
	wg.Wait()
	slices.SortFunc(all, func(a, b hostcheck.Reach) int { return cmp.Compare(a.Address, b.Address) })
	return all
}

func raftSyncs(m *raftnode.Member) (*hostcheck.Syncs, error) {
	s, err := m.SyncTimes()
	if err != nil {
		return nil, err
	}
	return hostcheck.NewSyncs(s.Bounds, s.Cumulative, s.Total), nil
}

// CheckNode has a node's host look at itself and reach others.
func (h *hostChecks) CheckNode(ctx context.Context, node fsm.NodeID, reach admin.ReachRequest) (admin.HostCheck, error) {
	return hostCheckOf(h.sessions.HostFacts(ctx, node, session.Reachability{Controllers: reach.Controllers, Hosts: reach.Hosts, Port: reach.Port}))
}

// CheckMember has a member look at its host.
func (h *hostChecks) CheckMember(ctx context.Context, memberID string) (admin.HostCheck, error) {
	m, err := h.members.member()
	if err != nil {
		return admin.HostCheck{}, err
	}
	for _, p := range m.Peers() {
		if p.ID == memberID {
			return hostCheckOf(h.sessions.MemberFacts(ctx, memberID, p.Self))
		}
	}
	return admin.HostCheck{}, errors.New("it left the configuration")
}

func hostCheckOf(text []byte, err error) (admin.HostCheck, error) {
	if errors.Is(err, session.ErrOlderBuild) {
		return admin.HostCheck{}, admin.ErrOlderBuild
	}
	if err != nil {
		return admin.HostCheck{}, err
	}
	facts, err := hostcheck.Decode(text)
	if err != nil {
		return admin.HostCheck{}, err
	}
	check := admin.HostCheck{Reached: reachedOf(facts.Reached), Controllers: reachedOf(facts.Controllers), Hosts: reachedOf(facts.Hosts)}
	if l := facts.Listened; l != nil {
		check.Listen = &admin.Listen{Address: l.Address, Err: l.Err, NotOurs: l.NotOurs}
	}
	facts.Reached = nil // the cluster's rules know who is down anyway
	for _, f := range hostcheck.Check(facts) {
		check.Findings = append(check.Findings, &adminpb.Diagnosis{Severity: string(f.Severity), Found: f.Found, Remedy: f.Remedy, Histogram: bucketsOf(f.Histogram)})
	}
	return check, nil
}

func reachedOf(all []hostcheck.Reach) (out []admin.Reached) {
	for _, r := range all {
		out = append(out, admin.Reached{Address: r.Address, Err: r.Err, Refused: r.Refused})
	}
	return out
}

func bucketsOf(all []hostcheck.Bucket) (out []*adminpb.DurationBucket) {
	for _, b := range all {
		out = append(out, &adminpb.DurationBucket{UpToSeconds: b.UpTo.Seconds(), Count: b.Count})
	}
	return out
}
