package controller

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode"
)

// raftMembership changes the configuration through the member.
type raftMembership struct{ cluster *cluster }

// StatusAt implements admin.Membership.
func (c raftMembership) StatusAt(ctx context.Context, addr string) (admin.PeerStatus, error) {
	m, err := c.cluster.member()
	if err != nil {
		return admin.PeerStatus{}, err
	}
	s, err := m.StatusAt(ctx, addr)
	if err != nil {
		return admin.PeerStatus{}, err
	}
	return admin.PeerStatus{
		Name: s.GetName(), MemberID: s.GetMemberId(), ClusterID: s.GetClusterId(),
		FeatureLevel: s.GetFeatureLevel(), Detail: s.GetTrouble(),
	}, nil
}

// Add implements admin.Membership.
func (c raftMembership) Add(ctx context.Context, memberID, addr string) error {
	m, err := c.cluster.member()
	if err != nil {
		return err
	}
	return asRejection(m.AddPeer(ctx, memberID, addr))
}

// Remove implements admin.Membership.
func (c raftMembership) Remove(ctx context.Context, memberID string) error {
	m, err := c.cluster.member()
	if err != nil {
		return err
	}
	return asRejection(m.RemovePeer(ctx, memberID))
}

// Demote implements admin.Membership.
func (c raftMembership) Demote(ctx context.Context, memberID string) error {
	m, err := c.cluster.member()
	if err != nil {
		return err
	}
	return asRejection(m.DemotePeer(ctx, memberID))
}

// Transfer implements admin.Membership.
func (c raftMembership) Transfer(ctx context.Context, memberID string) error {
	m, err := c.cluster.member()
	if err != nil {
		return err
	}
	return asRejection(m.TransferTo(ctx, memberID))
}

// asRejection turns an error that a retry does not repair into a rejection.
func asRejection(err error) error {
	if errors.Is(err, raftnode.ErrRefused) {
		return fsm.Reject(fsm.Precondition, "%s", err.Error())
	}
	return err
}
