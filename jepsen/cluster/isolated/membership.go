package isolated

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// AddController starts one more controller, which joins by itself. It does not wait until it votes.
func (c *Cluster) AddController(ctx context.Context) (*Member, error) {
	m, err := c.addMember(ctx, controllerRole)
	if err != nil {
		return nil, fmt.Errorf("add a controller: %w", err)
	}
	return m, m.Start(ctx)
}

// RemoveController takes a controller out of the cluster for good, and removes all that it had.
func (c *Cluster) RemoveController(ctx context.Context, m *Member) error {
	id, err := c.memberID(ctx, m)
	if err != nil {
		return fmt.Errorf("remove %s: %w", m.ID, err)
	}
	if err := c.changeMember(ctx, "remove", id); err != nil {
		return err
	}
	return c.forget(ctx, m)
}

// forget removes what a member has on this host.
func (c *Cluster) forget(ctx context.Context, m *Member) error {
	killed := m.Kill()
	m.endRelay()
	c.mu.Lock()
	c.members = slices.DeleteFunc(c.members, func(o *Member) bool { return o == m })
	c.mu.Unlock()
	c.net.Remove(m.host)
	return errors.Join(killed, m.disk.uncover(), unmountAll(ctx, m.disk.Root()), os.Remove(c.path("disk", m.ID)), c.writeLayout())
}

// ReplaceController has a controller lose its disk, and takes in at its address the empty one that is started there.
func (c *Cluster) ReplaceController(ctx context.Context, m *Member) error {
	id, err := c.memberID(ctx, m)
	if err != nil {
		return fmt.Errorf("replace %s: %w", m.ID, err)
	}
	if err := m.Kill(); err != nil {
		return err
	}
	if err := errors.Join(m.Wipe(), m.Start(ctx)); err != nil {
		return err
	}
	return c.changeMember(ctx, "replace", id)
}

// changeMember has the command line change a member, and repeats it as an operator would while the others are too few.
func (c *Cluster) changeMember(ctx context.Context, verb, id string) error {
	return harness.Poll(ctx, harness.Patience, "members "+verb+" "+id, func() (bool, error) {
		res := c.CLI(ctx, "members", verb, id, "--yes", "--wait")
		if res.Code == 0 {
			return true, nil
		}
		return false, fmt.Errorf("exit code %d: %s %s", res.Code, res.Stderr, res.Stdout)
	})
}

// memberID is the id by which the configuration knows a controller.
func (c *Cluster) memberID(ctx context.Context, m *Member) (id string, err error) {
	err = harness.Poll(ctx, harness.Patience, "the id of "+m.ID, func() (bool, error) {
		s, err := c.view.Status(ctx)
		i := slices.IndexFunc(s.Members, func(o harness.Member) bool { return o.ID == m.ID })
		if err != nil || i < 0 {
			return false, errors.Join(err, fmt.Errorf("the status has no %s", m.ID))
		}
		id = s.Members[i].MemberID
		return true, nil
	})
	return id, err
}
