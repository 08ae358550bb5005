package agent_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// newCryptPair is a pair whose volumes are encrypted, above DRBD.
func newCryptPair(t *testing.T) (*pair, [2]*fakeEncryptor) {
	p := newStoppedPair(t)
	return p, encrypt(p)
}

// encrypt starts a pair's hosts with encryptors that see each other's headers: the volumes are encrypted, above DRBD.
func encrypt(p *pair) [2]*fakeEncryptor {
	p.encrypted = true
	var all [2]*fakeEncryptor
	for i, m := range p.hosts {
		f := newFakeEncryptor(m.pool)
		f.replicas = m.replicator
		if i > 0 {
			f.mu, f.headers = all[0].mu, all[0].headers
		}
		configure := m.configure
		all[i], m.configure = f, func(c *agent.Config) {
			if c.Encryptor = f; configure != nil {
				configure(c)
			}
		}
	}
	for _, m := range p.hosts {
		m.start(nil)
	}
	return all
}

func TestS65_AnEncryptedVolumeMovesToItsOtherReplica(t *testing.T) {
	p, encryptors := newCryptPair(t)
	id := p.create(fsmpb.Protocol_PROTOCOL_C)
	for _, m := range p.hosts {
		image, err := m.pool.Observe(t.Context(), id)
		require.NoError(t, err)
		require.GreaterOrEqual(t, m.replicator.BackingCapacity(image.Size), int64(testSize+executor.LUKSHeaderBytes))
	}
	for _, m := range []*member{p.hosts[0], p.hosts[1], p.hosts[0]} {
		m.stage(id, m.publish(id))
		require.Equal(t, 1, encryptors[m.i].open())
		require.Zero(t, encryptors[1-m.i].open(), "keys are on the staging host only")
		m.unstage(id)
		require.Zero(t, encryptors[m.i].open(), "the mapping is closed before the demotion (S9)")
		m.unpublish(id)
	}
	require.Equal(t, 1, encryptors[0].count("format")+encryptors[1].count("format"), "S62: one header in the volume's life")
	m := p.hosts[1]
	m.stage(id, m.publish(id))
	p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_ExpandVolume{ExpandVolume: &fsmpb.ExpandVolume{VolumeId: string(id), RequiredBytes: 2 * testSize}}})
	p.eventually("both devices have grown", func() bool { return p.volume(id).Operation == nil })
	p.eventually("and the mapping grows with its passphrase", func() bool {
		size, err := m.e.Expand(t.Context(), executor.ExpandRequest{Volume: id, Path: stagingPath, Size: 2 * testSize, Keys: rightKeys})
		return err == nil && size == 2*testSize
	})
	m.unstage(id)
	m.unpublish(id)
	p.remove(id)
	require.Nil(t, encryptors[0].header(id))
	for _, f := range encryptors {
		require.Equal(t, 1, f.count("wipe"), "S65: on each replica")
	}
}

// S9: the filesystem that is shut down is the one on the mapping; then the mapping closes.
func TestS9_AVictimsMappingIsClosed(t *testing.T) {
	p, encryptors := newCryptPair(t)
	id := p.create(fsmpb.Protocol_PROTOCOL_C)
	a, b := p.hosts[0], p.hosts[1]
	a.stage(id, a.publish(id))
	var shutDown atomic.Value
	a.mounter.setFail(func(effect, path string) error {
		if effect == "shutdown" {
			shutDown.Store(path)
		}
		return nil
	})
	a.disconnect()
	p.link.SetDisconnected(true)
	a.unpublish(id)
	b.stage(id, b.publish(id))
	a.connect()
	p.link.SetDisconnected(false)
	p.waitUpToDate(id)
	require.Zero(t, encryptors[0].open())
	require.Equal(t, 1, encryptors[1].open())
	require.Equal(t, fakeMappingPrefix+string(id), shutDown.Load(), "the filesystem is on the mapping")
	b.unstage(id)
	b.unpublish(id)
	p.remove(id)
}
