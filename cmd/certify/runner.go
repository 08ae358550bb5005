// Package certify does on a cluster in use what admin/certify decides: it asks, hands leadership over, and removes what it made.
package certify

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/certify"
)

// patience is how long one thing is asked for again and again; tests set a shorter one.
var patience = 2 * time.Minute

// pause is between two looks.
const pause = 200 * time.Millisecond

// Runner certifies one cluster.
type Runner struct {
	Client   *admin.Client // of all controllers
	Cluster  string        // as in its certificates
	Actor    string        // in whose name it is asked
	Version  string        // of this program
	Progress func(format string, a ...any)
	// OlderThan is how old what an interrupted run left has to be: a younger run may be under way. 0: any age.
	OlderThan time.Duration
	// Restart stops a controller's process and returns when another one runs in its place; needed where the plan has restarts.
	Restart func(ctx context.Context, controller string) error
	// RestartPlugin does so with a host's node plugin.
	RestartPlugin func(ctx context.Context, host string) error
	// Pods write on hosts; needed where the plan has writes.
	Pods Pods

	run      certify.Run
	each     []*admin.Client // of one controller each
	names    []string        // of the controllers, in the order of each
	ids      map[string]string
	claims   int             // that were made beside the first
	youngest string          // the last of them, by its id
	ends     bool            // nothing is done any more but to remove
	writes   []certify.Write // of the plan's hosts, in their order
}

// Look asks the cluster for what decides whether it may be drilled: what interrupted runs left, and what of others has a scratch
// volume's name, are answered too. Nothing is changed.
func (r *Runner) Look(ctx context.Context) (f *certify.Facts, left []*adminpb.Volume, others []string, err error) {
	if err := r.nameControllers(ctx); err != nil {
		return nil, nil, nil, err
	}
	f = &certify.Facts{Reached: r.names}
	err = r.Client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) error {
		members, errMembers := api.Members(ctx, &adminpb.MembersRequest{})
		nodes, errNodes := api.Nodes(ctx, &adminpb.NodesRequest{})
		operations, errOperations := api.Operations(ctx, &adminpb.OperationsRequest{})
		f.Members, f.Nodes, f.Operations = members.GetMembers(), certify.Hosts(nodes.GetNodes()), operations.GetOperations()
		return firstOf(errMembers, errNodes, errOperations)
	})
	if err != nil {
		return nil, nil, nil, err
	}
	if f.Status, _, err = r.Client.Status(ctx); err != nil {
		return nil, nil, nil, err
	}
	if f.Volumes, err = r.volumes(ctx); err != nil {
		return nil, nil, nil, err
	}
	if f.Audit, err = r.audit(ctx); err != nil {
		return nil, nil, nil, err
	}
	left, others, err = r.leftovers(ctx, f.Volumes)
	return f, left, others, err
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err // as it is: its code says whether another controller is asked
		}
	}
	return nil
}

// nameControllers asks who answers at each address. One that does not answer is found by the facts: it is not reached.
func (r *Runner) nameControllers(ctx context.Context) error {
	r.each, r.names = nil, nil
	var last error
	for _, client := range r.Client.Each() {
		err := client.History(ctx, &adminpb.HistoryRequest{From: math.MaxUint64}, func(m *adminpb.HistoryResponse) error {
			if h := m.GetHeader(); h != nil {
				r.each, r.names = append(r.each, client), append(r.names, h.GetMember())
			}
			return nil
		})
		if err != nil {
			last = err
		}
	}
	if len(r.each) == 0 {
		return last
	}
	return nil
}

func (r *Runner) volumes(ctx context.Context) ([]*adminpb.Volume, error) {
	resp, err := r.Client.Volumes(ctx, &adminpb.VolumesRequest{})
	return resp.GetVolumes(), err
}

// awaitVolumes lists the volumes as soon as a controller answers.
func (r *Runner) awaitVolumes(ctx context.Context) (volumes []*adminpb.Volume, err error) {
	err = await(ctx, "list the volumes", func(ctx context.Context) (err error) { volumes, err = r.volumes(ctx); return err })
	return volumes, err
}

func (r *Runner) audit(ctx context.Context) (resp *adminpb.AuditResponse, err error) {
	err = r.Client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		resp, err = api.Audit(ctx, &adminpb.AuditRequest{})
		return err
	})
	return resp, err
}

// leftovers reads the history of each volume that has a scratch volume's name.
func (r *Runner) leftovers(ctx context.Context, volumes []*adminpb.Volume) ([]*adminpb.Volume, []string, error) {
	origins := map[string]certify.Origin{}
	named := certify.Named(volumes)
	for _, v := range named {
		err := r.Client.History(ctx, &adminpb.HistoryRequest{Volume: v.GetId()}, func(m *adminpb.HistoryResponse) error {
			origins[v.GetId()] = certify.OriginOf(origins[v.GetId()], v.GetId(), m)
			return nil
		})
		if err != nil {
			return nil, nil, fmt.Errorf("read the history of volume %s: %w", v.GetId(), err)
		}
	}
	before := time.Now().Add(-r.OlderThan)
	if r.OlderThan == 0 {
		before = time.Unix(math.MaxInt32, 0) // whatever the clocks say
	}
	left, others := certify.Leftovers(named, origins, before)
	return left, others, nil
}

func newRun() (certify.Run, error) {
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return "", fmt.Errorf("make the id of a run: %w", err)
	}
	return certify.Run(hex.EncodeToString(id[:])), nil
}

// errWait: what is asked for is not there yet.
var errWait = errors.New("not yet")

// await asks again until ask answers nil, for as long as patience has it. The error is the last.
func await(ctx context.Context, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}
