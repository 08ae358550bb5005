package raftnode

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// folders are those of the members' certificates.
func (c *testCluster) folders() (all []string) {
	for _, n := range c.members {
		all = append(all, filepath.Dir(n.files.Cert))
	}
	return all
}

// proposeUnderLoad proposes at every member until stop is called; applied counts. None may fail but for want of a
// leader, which a machine that starves one for a few heartbeats of a test brings about by itself.
func (c *testCluster) proposeUnderLoad() (applied *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	applied = &atomic.Int64{}
	var wg sync.WaitGroup
	failed := make(chan error, len(c.members))
	for _, n := range c.members {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				_, err := n.Propose(testContext(c.t), registerNode(fmt.Sprintf("%s-%d", n.cfg.Name, i%4)))
				switch {
				case err == nil:
					applied.Add(1)
				case IsUnavailable(err):
					time.Sleep(testHeartbeat)
				default:
					failed <- fmt.Errorf("%s: %w", n.cfg.Name, err)
					return
				}
			}
		})
	}
	return applied, func() {
		cancel()
		wg.Wait()
		close(failed)
		require.NoError(c.t, <-failed)
	}
}

// current tells whether a certificate is the one that its member has now.
func (c *testCluster) current(p pki.Certificate) bool {
	return slices.ContainsFunc(c.members, func(n *testMember) bool { return n.cfg.Credentials.Certificate() == p })
}

// waitConnectedBy waits until all members that are connected are so by certificates that fit, and by the ones that they have now. Where
// the member that dials was renewed first, another connection may last that was made under the other one's former certificate.
func (c *testCluster) waitConnectedBy(applied *atomic.Int64, fits func(pki.Certificate) bool) {
	c.t.Helper()
	eventually(c.t, func() error {
		for _, n := range c.members {
			n.cfg.Credentials.Recheck()
			connected := n.cfg.Credentials.Connected()
			for _, peer := range connected {
				if !fits(peer) || !slices.ContainsFunc(connected, func(p pki.Certificate) bool { return p.Actor() == peer.Actor() && c.current(p) }) {
					return fmt.Errorf("%s is connected by the certificate %s of %s", n.cfg.Name, peer.Serial, peer.Actor())
				}
			}
		}
		return nil
	})
	before := applied.Load()
	eventually(c.t, func() error { // and they are in use
		if applied.Load() < before+20 {
			return fmt.Errorf("nothing is applied")
		}
		return nil
	})
}

// Certificates and then the CA are replaced while every member proposes. Nothing is refused for it, and what was
// made under the old ones has ended. That no call is dropped the drill of whole processes shows, whose heartbeats are
// those of a real cluster.
func TestCertificatesAndTheCAAreReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	for _, n := range c.members {
		n.cfg.Credentials = n.Member.cfg.Credentials
	}
	applied, stop := c.proposeUnderLoad()
	defer stop()
	carryOut := func(p *pki.FilePlan, err error) {
		require.NoError(t, err)
		require.NotZero(t, p.Todo())
		require.NoError(t, p.CarryOut())
	}
	carryOut(pki.PlanRenew(c.ca, c.folders(), 2*time.Hour, 3*time.Hour))
	c.waitConnectedBy(applied, func(pki.Certificate) bool { return true })

	carryOut(pki.PlanRotate(c.ca, c.folders()))
	old := c.members[0].cfg.Credentials.Certificate().Issuer
	carryOut(pki.PlanSwitch(c.ca, c.folders(), time.Hour))
	require.NotEqual(t, old, c.members[0].cfg.Credentials.Certificate().Issuer)
	carryOut(pki.PlanFinish(c.ca, c.folders()))
	c.waitConnectedBy(applied, func(p pki.Certificate) bool { return p.Issuer != old })
	for _, n := range c.members {
		require.NoError(t, n.cfg.Credentials.Err())
		require.NoError(t, n.Ready())
	}
}

func revokeController(name string, c *testCluster) *fsmpb.Command {
	cmd := &fsmpb.RevokeIdentity{Role: "controller", Name: name, Reason: "stolen"}
	for _, n := range c.members {
		own := n.Member.cfg.Credentials.Certificate()
		if own.Name == name {
			cmd.IssuedUntil = own.Issued.UnixNano()
		}
		cmd.Voters = append(cmd.Voters, &fsmpb.VoterCertificate{Name: own.Name, Serial: own.Serial, Issued: own.Issued.UnixNano()})
	}
	return &fsmpb.Command{Actor: "admin/ann", Body: &fsmpb.Command_RevokeIdentity{RevokeIdentity: cmd}}
}

// A revoked controller is cut off from both ends, votes for nobody and hears nothing, and so it stays where
// the others start again without a quorum.
func TestARevokedControllerIsCutOff(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	revoked := c.followers()[0]
	others := c.others(revoked)
	_, err := others[0].Propose(testContext(t), revokeController(revoked.cfg.Name, c))
	require.NoError(t, err)
	eventually(t, func() error {
		for _, n := range others {
			for _, peer := range n.Member.cfg.Credentials.Connected() {
				if peer.Name == revoked.cfg.Name {
					return fmt.Errorf("%s is still connected to it", n.cfg.Name)
				}
			}
		}
		return nil
	})
	eventually(t, func() error {
		if revoked.Ready() == nil {
			return fmt.Errorf("it still serves")
		}
		return nil
	})
	register := func(among *testMember, name string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*testHeartbeat)
		defer cancel()
		_, err := among.Propose(ctx, registerNode(name))
		return err
	}
	eventually(t, func() error { return register(others[0], "n1") })
	require.Error(t, register(revoked, "n2"))

	// One of the two others is gone: with the vote of the revoked one there would be a leader.
	others[1].crash(t)
	require.Error(t, register(others[0], "n3"))
	require.NoError(t, others[0].stop())
	require.NoError(t, c.start(others[0]))
	creds := revoked.Member.cfg.Credentials.Certificate()
	require.ErrorContains(t, others[0].revocations.check(creds), "stolen", "it has no quorum, and its state may be empty")
	require.Error(t, register(others[0], "n4"))
	leading, _, _ := others[0].Leadership()
	require.False(t, leading)
	require.NoError(t, c.start(others[1]))
	eventually(t, func() error { return register(others[0], "n5") })
	require.NotZero(t, others[0].machine.cluster().Index)
}

// A leader that is revoked leads no more; a new certificate of its identity is good at once, and what is unrevoked is
// recorded so.
func TestARevokedControllerComesBack(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	revoked := c.leader()
	others := c.others(revoked)
	retryUnavailable(t, func() error {
		_, err := others[0].Propose(testContext(t), revokeController(revoked.cfg.Name, c))
		return err
	})
	leader := c.leader(others...)
	eventually(t, func() error {
		if revoked.Ready() == nil {
			return fmt.Errorf("it still serves")
		}
		return nil
	})
	eventually(t, func() error { // it may apply the entry later than the others
		if _, ok := leader.revocations.current.Load().by["controller/"+revoked.cfg.Name]; !ok {
			return fmt.Errorf("it is not applied")
		}
		return nil
	})
	eventually(t, func() error { // dates have seconds: one of the same second is revoked too
		_, err := pki.Issue(c.ca, filepath.Dir(revoked.files.Cert), pki.Identity{Role: pki.Controller, Name: revoked.cfg.Name}, time.Hour)
		require.NoError(t, err)
		return leader.revocations.check(revoked.Member.cfg.Credentials.Certificate())
	})
	eventually(t, revoked.Ready)

	var since uint64
	retryUnavailable(t, func() error {
		_, err := leader.Read(testContext(t), func(s *fsm.State) error {
			r, ok := s.Revocation("controller", revoked.cfg.Name)
			require.True(t, ok)
			since = r.Since
			return nil
		})
		return err
	})
	retryUnavailable(t, func() error { // one that was applied although its answer was lost is applied again
		_, err := leader.Propose(testContext(t), &fsmpb.Command{Actor: "admin/ann", Body: &fsmpb.Command_UnrevokeIdentity{
			UnrevokeIdentity: &fsmpb.UnrevokeIdentity{Role: "controller", Name: revoked.cfg.Name, Since: since},
		}})
		return err
	})
	recorded, err := leader.storage.revocations()
	require.NoError(t, err)
	require.Empty(t, recorded.Revoked)
}
