package isolated

import (
	"context"
	"fmt"
	"net"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/netns"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/relay"
)

// Spoil leads what the member's host opens to others through a relay with this weather. Its live connections are ended first, so that
// they go there too. It may be repeated with another weather.
func (m *Member) Spoil(ctx context.Context, w relay.Weather, seed uint64) (*relay.Count, error) {
	r, err := m.relay(ctx, seed)
	if err != nil {
		return nil, fmt.Errorf("put a relay before %s: %w", m.ID, err)
	}
	r.Set(w)
	port := r.Listener.Addr().(*net.TCPAddr).Port
	if err := m.host.Detour(ctx, port); err != nil {
		return nil, err
	}
	_, err = m.host.Reset(ctx)
	return r.Count(), err
}

// Clear ends what Spoil began. Connections that are open stay as they are, in fair weather.
func (m *Member) Clear(ctx context.Context) error {
	m.mu.Lock()
	r := m.spoiled
	m.mu.Unlock()
	if r == nil {
		return nil
	}
	r.Set(relay.Weather{})
	return m.host.Detour(ctx, 0)
}

// relay is the member's relay, started when it is first asked for.
func (m *Member) relay(ctx context.Context, seed uint64) (*relay.Relay, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spoiled != nil {
		return m.spoiled, nil
	}
	listener, err := m.host.Listen(ctx, "tcp", "0.0.0.0:0")
	if err != nil {
		return nil, err
	}
	m.spoiled = relay.Start(relay.Config{Listener: listener, Destination: netns.Destination, Seed: seed,
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return m.host.DialMarked(ctx, "tcp", address)
		}})
	return m.spoiled, nil
}

// endRelay ends the member's relay and what it passes on.
func (m *Member) endRelay() {
	m.mu.Lock()
	r := m.spoiled
	m.spoiled = nil
	m.mu.Unlock()
	if r != nil {
		r.Close()
	}
}
