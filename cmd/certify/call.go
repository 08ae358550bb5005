package certify

import (
	"context"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/certify"
)

// passing are the codes after which an orchestrator asks again.
var passing = map[string]bool{
	codes.Unavailable.String(): true, codes.Aborted.String(): true, codes.DeadlineExceeded.String(): true, codes.Canceled.String(): true,
}

// call makes a request once, through one controller.
func (r *Runner) call(ctx context.Context, q certify.Request) certify.Call {
	i := q.Through % len(r.each)
	req := proto.CloneOf(q.VolumeChangeRequest)
	c := certify.Call{As: q.As, Verb: req.GetVerb(), Name: req.GetVolume(), Node: req.GetNode(), Through: r.names[i], PlanOnly: q.PlanOnly}
	if id := r.ids[req.GetVolume()]; id != "" && req.GetVerb() != "create" {
		req.Volume = id // a name may be another volume's by then
	}
	err := r.each[i].TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) error {
		ask := api.ChangeVolume
		if q.PlanOnly {
			ask = api.PlanVolume
		}
		resp, err := ask(ctx, req)
		if err == nil {
			fill(&c, resp)
		}
		return err
	})
	if err != nil {
		c.Code, c.Message = status.Code(err).String(), status.Convert(err).Message()
	}
	return c
}

func fill(c *certify.Call, resp *adminpb.VolumeChangeResponse) {
	c.Code, c.Index, c.Volume = resp.GetCsiCode(), resp.GetIndex(), resp.GetVolumeId()
	c.Created, c.Size = resp.GetVolume().GetCreated(), resp.GetVolume().GetSizeBytes()
	if c.Code != codes.OK.String() {
		c.Message = resp.GetSteps()[0].GetDetail()
	}
	var pairs []string
	for _, p := range resp.GetPublishContext() {
		pairs = append(pairs, p.GetKey()+"="+p.GetValue())
	}
	c.Context = strings.Join(pairs, ",")
}

// persist makes a request as an orchestrator does: again, through the same controller, while the answer says that it may succeed
// later.
func (r *Runner) persist(ctx context.Context, q certify.Request) certify.Call {
	return r.repeat(ctx, q, func(code string) bool { return passing[code] })
}

// repeat makes a request through one controller while its answers have such a code. The last answer is judged.
func (r *Runner) repeat(ctx context.Context, q certify.Request, again func(code string) bool) (c certify.Call) {
	_ = await(ctx, "", func(ctx context.Context) error {
		if c = r.call(ctx, q); again(c.Code) {
			return errWait
		}
		return nil
	})
	return c
}

// unanswered are the codes by which nothing was said of the request: nobody led, or it took too long.
func unanswered(code string) bool { return passing[code] && code != codes.Aborted.String() }

// atOnce makes a request several times at one moment, each through the next controller. Those that got no answer are made again if there was
// an election meanwhile: without one the requests kept each other from being answered, which is what is judged.
func (r *Runner) atOnce(ctx context.Context, q certify.Request) ([]certify.Call, error) {
	before, err := r.status(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]certify.Request, q.AtOnce)
	for i := range all {
		all[i] = q
		all[i].Through += i
	}
	calls := make([]certify.Call, len(all))
	allAtOnce(all, calls, func(q certify.Request) certify.Call { return r.call(ctx, q) })
	if !slices.ContainsFunc(calls, func(c certify.Call) bool { return unanswered(c.Code) }) {
		return calls, nil
	}
	after, err := r.status(ctx)
	if err != nil || after.GetTerm() <= before.GetTerm() {
		return calls, err
	}
	allAtOnce(all, calls, func(q certify.Request) certify.Call { return r.repeat(ctx, q, unanswered) })
	return calls, nil
}

// allAtOnce makes those of the requests that have no answer yet.
func allAtOnce(all []certify.Request, calls []certify.Call, call func(certify.Request) certify.Call) {
	var wg sync.WaitGroup
	for i, q := range all {
		if calls[i].Code == "" || unanswered(calls[i].Code) {
			wg.Go(func() { calls[i] = call(q) })
		}
	}
	wg.Wait()
}

// ask makes a request of a check: once, or several times at one moment.
func (r *Runner) ask(ctx context.Context, q certify.Request) ([]certify.Call, error) {
	if q.AtOnce > 0 {
		return r.atOnce(ctx, q)
	}
	return []certify.Call{r.persist(ctx, q)}, nil
}

// check makes the requests of a check, and removes what they made.
func (r *Runner) check(ctx context.Context, c *certify.Check, w certify.World) ([]certify.Row, error) {
	var o certify.Outcome
	for _, q := range c.Requests(w) {
		calls, err := r.ask(ctx, q)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		for _, one := range calls {
			if one.Verb == "create" && one.Volume != "" {
				r.ids[one.Name] = one.Volume
			}
		}
		o.Calls = append(o.Calls, calls...)
	}
	volumes, err := r.awaitVolumes(ctx)
	if err != nil {
		return nil, err
	}
	o.Listed = map[string]int{}
	for _, v := range volumes {
		if r.run.Owns(v.GetName()) {
			o.Listed[v.GetName()]++
		}
	}
	return certify.JudgeRows(c, &o, len(w.Hosts)), r.removeOwn(ctx)
}
