package certify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/certify"
)

// stays is the volume that is published throughout the handovers.
const stays = "stays-published"

// publishStaying makes it, and answers its publication's context.
func (r *Runner) publishStaying(ctx context.Context, w certify.World) (string, error) {
	made := r.persist(ctx, certify.Request{VolumeChangeRequest: r.creation(w, r.run.Name(stays), 0)})
	if made.Code != "OK" {
		return "", fmt.Errorf("create a scratch volume: %s %s", made.Code, made.Message)
	}
	r.ids[made.Name] = made.Volume
	c := r.persist(ctx, r.publication(w, 0))
	if c.Code != "OK" || c.Context == "" {
		return "", fmt.Errorf("publish a scratch volume: %s %s", c.Code, c.Message)
	}
	return c.Context, nil
}

func (r *Runner) publication(w certify.World, through int) certify.Request {
	return certify.Request{Through: through, VolumeChangeRequest: &adminpb.VolumeChangeRequest{
		Verb: "publish", Volume: r.run.Name(stays), Node: w.Hosts[0], Reason: r.run.Reason()}}
}

func (r *Runner) creation(w certify.World, name string, host int) *adminpb.VolumeChangeRequest {
	return &adminpb.VolumeChangeRequest{Verb: "create", Volume: name, SizeBytes: w.SizeBytes, Node: w.Hosts[host%len(w.Hosts)], Reason: r.run.Reason()}
}

// drillName is that of a volume which is made in the middle of a handover.
func (r *Runner) drillName(handover, i int) string {
	return r.run.Name(fmt.Sprintf("drill-%d-%d", handover, i))
}

// disturbance is what is done while volumes are made: leadership is handed to a controller, or one is restarted.
type disturbance struct {
	to, restarted, plugin, says string
	do                          func(context.Context) error
}

// disturbances are the handovers and then the restarts of a plan, those of controllers first.
func (r *Runner) disturbances(plan *certify.Plan) (all []disturbance) {
	for _, to := range plan.Handovers {
		all = append(all, disturbance{to: to, says: "leadership to " + to, do: func(ctx context.Context) error { return r.transfer(ctx, to) }})
	}
	for _, name := range plan.Restarts {
		all = append(all, disturbance{restarted: name, says: "restart of " + name, do: func(ctx context.Context) error { return r.restart(ctx, name) }})
	}
	for _, host := range plan.Plugins {
		all = append(all, disturbance{plugin: host, says: "restart of the node plugin of " + host, do: func(ctx context.Context) error { return r.restartPlugin(ctx, host) }})
	}
	return all
}

// restartPlugin restarts a host's node plugin, and returns when the log hears of the host again.
func (r *Runner) restartPlugin(ctx context.Context, host string) error {
	if err := r.RestartPlugin(ctx, host); err != nil {
		return fmt.Errorf("restart the node plugin of %s: %w", host, err)
	}
	return await(ctx, "wait for host "+host, func(ctx context.Context) error {
		return r.Client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) error {
			nodes, err := api.Nodes(ctx, &adminpb.NodesRequest{})
			for _, n := range nodes.GetNodes() {
				if n.GetId() == host && n.GetState() != "reachable" {
					err = errors.Join(err, fmt.Errorf("it is %s", n.GetState()))
				}
			}
			return err
		})
	})
}

// restart restarts a controller, and returns when the whole cluster is well again.
func (r *Runner) restart(ctx context.Context, name string) error {
	if err := r.Restart(ctx, name); err != nil {
		return fmt.Errorf("restart controller %s: %w", name, err)
	}
	return await(ctx, "wait for controller "+name, func(ctx context.Context) error {
		status, _, err := r.Client.Status(ctx)
		if err != nil {
			return err
		}
		_, err = certify.HashesOf("", status)
		return err
	})
}

// handover does one of them while volumes are made, and looks at what came of it. The volumes stay.
func (r *Runner) handover(ctx context.Context, w certify.World, n int, d disturbance, publishContext string, burst int) (certify.Handover, error) {
	before, err := r.leaderBut(ctx, d.to)
	h := certify.Handover{From: before.GetLeader(), To: d.to, Restarted: d.restarted, Plugin: d.plugin, TermBefore: before.GetTerm(), Begun: time.Now().UTC(), Created: make([]certify.Created, burst)}
	if err != nil {
		return h, err
	}
	var wg sync.WaitGroup
	failed := make([]error, burst)
	begin := func(from, to int) {
		for i := from; i < to; i++ {
			wg.Go(func() {
				h.Created[i], failed[i] = r.createAnyhow(ctx, r.creation(w, r.drillName(n, i), i), i)
			})
		}
	}
	begin(0, (burst+1)/2)
	moved := make(chan error, 1)
	go func() { moved <- d.do(ctx) }()
	begin((burst+1)/2, burst)
	wg.Wait()
	if err := firstOf(append(failed, <-moved)...); err != nil {
		return h, err
	}
	return h, r.lookAfter(ctx, w, &h, n, publishContext)
}

// leaderBut is the status while another one leads than whom leadership is handed to: on a busy machine an election may have come before.
// With "" whoever leads.
func (r *Runner) leaderBut(ctx context.Context, to string) (now *adminpb.StatusResponse, err error) {
	other := slices.IndexFunc(r.names, func(name string) bool { return name != to })
	err = await(ctx, "have another controller lead than "+to, func(ctx context.Context) (err error) {
		now, err = r.status(ctx)
		switch {
		case err != nil || to == "" || now.GetLeader() != to:
			return err
		case other < 0:
			return errors.New("there is no other")
		}
		return cmp.Or(r.transfer(ctx, r.names[other]), errWait) // and look who leads now
	})
	return now, err
}

// status is that of the cluster, as soon as a controller answers.
func (r *Runner) status(ctx context.Context) (now *adminpb.StatusResponse, err error) {
	err = await(ctx, "read the status", func(ctx context.Context) (err error) { now, _, err = r.Client.Status(ctx); return err })
	return now, err
}

// createAnyhow asks one controller after another for a volume until it is acknowledged.
func (r *Runner) createAnyhow(ctx context.Context, req *adminpb.VolumeChangeRequest, first int) (c certify.Created, err error) {
	c.Name = req.GetVolume()
	err = await(ctx, "create volume "+c.Name, func(ctx context.Context) error {
		got := r.call(ctx, certify.Request{VolumeChangeRequest: req, Through: first + len(c.Through)})
		c.Through = append(c.Through, got.Through)
		if got.Code != "OK" {
			return fmt.Errorf("%s answered %s: %s", got.Through, got.Code, got.Message)
		}
		c.ID, c.At = got.Volume, got.Created
		return nil
	})
	return c, err
}

// transfer hands leadership over, and returns when the controller leads.
func (r *Runner) transfer(ctx context.Context, to string) error {
	return await(ctx, "hand leadership to "+to, func(ctx context.Context) error {
		err := r.Client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) error {
			plan, err := api.PlanMember(ctx, &adminpb.MemberPlanRequest{Verb: "transfer", Member: to})
			if err != nil || plan.GetDone() {
				return err
			}
			_, err = api.ChangeMember(ctx, &adminpb.MemberPlanRequest{Verb: "transfer", MemberId: plan.GetMemberId(), Reason: r.run.Reason()})
			return err
		})
		if err != nil {
			return err
		}
		now, _, err := r.Client.Status(ctx)
		if err == nil && now.GetLeader() != to {
			err = fmt.Errorf("%s leads", now.GetLeader())
		}
		return err
	})
}

// lookAfter asks every other controller for each volume again, and for the publication, and judges.
func (r *Runner) lookAfter(ctx context.Context, w certify.World, h *certify.Handover, n int, publishContext string) error {
	for i := range h.Created {
		c := &h.Created[i]
		if err := r.readTerm(ctx, c); err != nil {
			return err
		}
		for through, name := range r.names {
			if name != c.Through[len(c.Through)-1] {
				c.Repeated = append(c.Repeated, r.persist(ctx, certify.Request{VolumeChangeRequest: r.creation(w, r.drillName(n, i), i), Through: through}))
			}
		}
	}
	published := r.persist(ctx, r.publication(w, n))
	h.Context = published.Context
	after, err := r.status(ctx)
	if err != nil {
		return err
	}
	volumes, err := r.awaitVolumes(ctx)
	if err != nil {
		return err
	}
	h.TermAfter, h.Ended = after.GetTerm(), time.Now().UTC()
	h.Judge(r.run, volumes, publishContext)
	return nil
}

// readTerm reads in which term a volume was made.
func (r *Runner) readTerm(ctx context.Context, c *certify.Created) error {
	return await(ctx, "read the history of volume "+c.ID, func(ctx context.Context) error {
		c.Term = 0
		return r.Client.History(ctx, &adminpb.HistoryRequest{Volume: c.ID}, func(m *adminpb.HistoryResponse) error {
			c.Term = certify.TermOf(c.Term, c.ID, m)
			return nil
		})
	})
}

// removeBurst removes the volumes of a handover.
func (r *Runner) removeBurst(ctx context.Context, h *certify.Handover) error {
	for i := range h.Created {
		if err := r.finish(ctx, &adminpb.VolumeChangeRequest{Verb: "delete", Volume: h.Created[i].ID, Reason: r.run.Reason()}); err != nil {
			return err
		}
	}
	return nil
}
