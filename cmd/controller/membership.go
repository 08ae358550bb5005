package controller

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode"
)

// membership changes the configuration through the member.
type membership struct{ cluster *cluster }

// Visit is admin.Membership's.
func (c membership) Visit(ctx context.Context, addr string) (admin.Visited, error) {
	m, err := c.cluster.member()
	if err != nil {
		return admin.Visited{}, err
	}
	s, err := m.Visit(ctx, addr)
	if err != nil {
		return admin.Visited{}, err
	}
	return admin.Visited{
		Name: s.GetName(), MemberID: s.GetMemberId(), ClusterID: s.GetClusterId(),
		FeatureLevel: s.GetFeatureLevel(), Detail: s.GetTrouble(),
	}, nil
}

// Add is admin.Membership's.
func (c membership) Add(ctx context.Context, memberID, addr string) error {
	m, err := c.cluster.member()
	if err != nil {
		return err
	}
	return refused(m.AddPeer(ctx, memberID, addr))
}

// Remove is admin.Membership's.
func (c membership) Remove(ctx context.Context, memberID string) error {
	m, err := c.cluster.member()
	if err != nil {
		return err
	}
	return refused(m.RemovePeer(ctx, memberID))
}

// refused makes a rejection of what trying again does not mend.
func refused(err error) error {
	if errors.Is(err, raftnode.ErrRefused) {
		return fsm.Reject(fsm.Precondition, "%s", err.Error())
	}
	return err
}
