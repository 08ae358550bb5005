package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// recoverOptions are the flags of `holdfast recover`.
type recoverOptions struct {
	rebuildOptions

	endpoints []string
	files     pki.Files
	timeout   time.Duration
	without   []string
	compare   []string
}

func recoverCommand() *cobra.Command {
	o := &recoverOptions{}
	cmd := &cobra.Command{Use: "recover", Short: "Make the only voter of one controller's data, after the loss of the quorum for good",
		Long: "Run it on one stopped controller that is left, the one whose log reaches furthest. Its whole log becomes the state\n" +
			"of a new member of the same cluster, the only voter, also entries that no quorum had; the cluster gets another\n" +
			"incarnation. The former folder is kept beside it. Shows what it would do; --yes does it.\n\n" +
			"The other voters are compared first: those that run are asked through --endpoints, the folder of a stopped one\n" +
			"that is on this machine, or copied to it, is read with --compare, and --without is your word that a member's data is gone.",
		Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		}}
	o.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&o.endpoints, "endpoints", nil, "API `addresses` of the controllers that still run, host:port; each is asked")
	daemon.AddTLSFlags(flags, &o.files)
	flags.DurationVar(&o.timeout, "timeout", readTimeout, "how long one controller may take to answer")
	flags.StringArrayVar(&o.without, "without", nil, "the `id` of a member whose data is gone, or was compared; may be repeated")
	flags.StringArrayVar(&o.compare, "compare", nil, "data `folder` of another stopped member to compare with; may be repeated")
	return cmd
}

func (o *recoverOptions) run(ctx context.Context, out, notes io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	clients, err := o.clients(ctx)
	if err != nil {
		return err
	}
	s, err := o.open()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // again after an error only
	if made, err := raftnode.ReadRebuilt(o.dir); err == nil && made != nil && s.Alone() {
		fmt.Fprintf(out, "done already: %s was made by %s at %s, as member %s with incarnation %d; start it\n",
			o.dir, made.Kind, made.At.Format(time.RFC3339), made.Member, made.Incarnation)
		return nil
	}
	if err := s.CheckRecover(); err != nil {
		return rebuildError("recover", err)
	}
	found := newComparison(s)
	o.ask(ctx, clients, found)
	if err := o.readOthers(found); err != nil {
		return err
	}
	problems := found.problems(o.without)
	o.printPlan(out, s, found)
	switch {
	case len(problems) > 0:
		return exit.Refusedf("recover: nothing was changed: %s", strings.Join(problems, "; "))
	case !o.yes:
		fmt.Fprintln(notes, "nothing was changed: the same command with --yes carries this out")
		return nil
	}
	former := s.FormerDir()
	kind, err := store.KindOf(o.dir)
	if err != nil {
		return rebuildError("recover", err)
	}
	made, err := s.Recover(raftnode.Rebuild{Advertise: o.advertise, LogStore: kind, Marker: o.marker, Actor: "admin/offline-recover", Now: time.Now()})
	if err != nil {
		return rebuildError("recover", err)
	}
	fmt.Fprintf(out, "done: %s is the folder of member %s, incarnation %d; the former one is %s\n", o.dir, made.Member, made.Incarnation, former)
	return nil
}

// open opens the folder. One that is in use after a recovery says so.
func (o *recoverOptions) open() (*raftnode.Survivor, error) {
	s, err := raftnode.OpenSurvivor(o.dir)
	if err == nil {
		return s, nil
	}
	if errors.Is(err, store.ErrInUse) {
		if made, readErr := raftnode.ReadRebuilt(o.dir); readErr == nil && made != nil {
			return nil, exit.Refusedf("%w: a controller runs on it; it was made by %s at %s", err, made.Kind, made.At.Format(time.RFC3339))
		}
		return nil, exit.Refusedf("%w: stop the controller first", err)
	}
	return nil, exit.Wrap(exit.Refused, err)
}

// clients are for each controller alone.
func (o *recoverOptions) clients(ctx context.Context) (map[string]*admin.Client, error) {
	clients := map[string]*admin.Client{}
	for _, endpoint := range o.endpoints {
		c := connection{endpoints: []string{endpoint}, files: o.files, output: "table", timeout: o.timeout}
		client, err := c.client(ctx)
		if err != nil {
			return nil, err
		}
		clients[endpoint] = client
	}
	return clients, nil
}

func (o *recoverOptions) ask(ctx context.Context, clients map[string]*admin.Client, found *comparison) {
	for _, endpoint := range slices.Sorted(maps.Keys(clients)) {
		var resp *adminpb.StatusResponse
		err := clients[endpoint].TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
			resp, err = api.Status(ctx, &adminpb.StatusRequest{})
			return err
		})
		if err != nil {
			found.silent = append(found.silent, fmt.Sprintf("%s did not answer: %s", endpoint, exit.Line(err)))
			continue
		}
		found.addStatus(endpoint, resp)
	}
}

// readOthers compares with the folders of stopped members.
func (o *recoverOptions) readOthers(found *comparison) error {
	for _, dir := range o.compare {
		other, err := raftnode.OpenSurvivor(dir)
		if err != nil {
			return exit.Wrap(exit.Refused, fmt.Errorf("compare with %s: %w", dir, err))
		}
		found.add(compared{
			member: other.MemberID, cluster: other.State.Cluster().ID, where: dir, term: other.LastTerm, index: other.LastIndex,
		})
		if err := other.Close(); err != nil {
			return exit.Wrap(exit.Refused, err)
		}
	}
	return nil
}

func (o *recoverOptions) printPlan(w io.Writer, s *raftnode.Survivor, found *comparison) {
	c := s.State.Cluster()
	fmt.Fprintf(w, "member %s of cluster %s, incarnation %d\n", s.MemberID, c.ID, c.Incarnation)
	fmt.Fprintf(w, "its log ends at index %d of term %d; all of it is taken, also entries above its Raft snapshot (index %d) that no quorum may have had: they count from now on\n",
		s.LastIndex, s.LastTerm, s.SnapshotIndex)
	for _, server := range s.Configuration.Servers {
		fmt.Fprintf(w, "  %s %s at %s: %s\n", strings.ToLower(server.Suffrage.String()), server.ID, server.Address, found.describe(string(server.ID), o.without))
	}
	for _, server := range s.FormerVoters() {
		fmt.Fprintf(w, "  voter of the configuration before, as the last one may not be committed: %s at %s: %s\n", server.ID, server.Address, found.describe(string(server.ID), o.without))
	}
	for _, line := range found.silent {
		fmt.Fprintf(w, "  %s\n", line)
	}
	fmt.Fprintf(w, "the former folder is kept as %s\n", s.FormerDir())
	o.printRebuild(w, c.Incarnation, raftnode.NextIncarnation(s.State, 0))
}

// compared is how far another member's log reaches.
type compared struct {
	member, cluster, where string
	term, index            uint64
}

// comparison is what is known of the other members of a survivor (S24).
type comparison struct {
	own     compared
	voters  []string
	others  map[string]compared
	leaders []string // that a controller knows
	foreign []string
	silent  []string
}

func newComparison(s *raftnode.Survivor) *comparison {
	return &comparison{
		own:    compared{member: s.MemberID, cluster: s.State.Cluster().ID, term: s.LastTerm, index: s.LastIndex},
		voters: s.Voters(), others: map[string]compared{},
	}
}

func (c *comparison) add(o compared) {
	switch {
	case o.member == c.own.member: // a copy of the same folder
		c.foreign = append(c.foreign, fmt.Sprintf("%s is of this same member", o.where))
	case o.cluster != "" && o.cluster != c.own.cluster:
		c.foreign = append(c.foreign, fmt.Sprintf("%s is of cluster %s, not %s", o.where, o.cluster, c.own.cluster))
	default:
		if known, ok := c.others[o.member]; !ok || o.beyond(known) {
			c.others[o.member] = o
		}
	}
}

// addStatus adds every member that a controller reached, itself among them.
func (c *comparison) addStatus(endpoint string, resp *adminpb.StatusResponse) {
	if resp.GetLeader() != "" {
		c.leaders = append(c.leaders, fmt.Sprintf("%s knows a leader, %s: the cluster has a quorum", endpoint, resp.GetLeader()))
	}
	for _, m := range resp.GetMembers() {
		if m.GetReachable() {
			if m.GetRole() == "leader" && resp.GetLeader() == "" {
				c.leaders = append(c.leaders, fmt.Sprintf("%s leads, as %s says", m.GetId(), endpoint))
			}
			c.add(compared{member: m.GetMemberId(), cluster: resp.GetClusterId(), where: m.GetId() + " through " + endpoint, term: m.GetLastLogTerm(), index: m.GetLastLogIndex()})
		}
	}
}

// beyond tells a log that has more.
func (o compared) beyond(than compared) bool {
	return cmp.Or(cmp.Compare(o.term, than.term), cmp.Compare(o.index, than.index)) > 0
}

// problems are why the survivor may not be recovered.
func (c *comparison) problems(without []string) (problems []string) {
	problems = append(append(problems, c.leaders...), c.foreign...)
	for _, id := range slices.Sorted(maps.Keys(c.others)) {
		o := c.others[id]
		switch {
		case o.index == 0:
			problems = append(problems, fmt.Sprintf("member %s (%s) does not say how far its log reaches: stop it and compare with its folder", id, o.where))
		case o.beyond(c.own):
			problems = append(problems, fmt.Sprintf("member %s (%s) has index %d of term %d, this one %d of term %d: recover there", id, o.where, o.index, o.term, c.own.index, c.own.term))
		}
	}
	for _, id := range without {
		_, answered := c.others[id]
		switch {
		case answered:
			problems = append(problems, fmt.Sprintf("member %s is named by --without, and it was found", id))
		case id == c.own.member || !slices.Contains(c.voters, id):
			problems = append(problems, fmt.Sprintf("--without %s: that is no other voter of the last two configurations", id))
		}
	}
	for _, id := range c.voters {
		if _, answered := c.others[id]; !answered && id != c.own.member && !slices.Contains(without, id) {
			problems = append(problems, fmt.Sprintf("voter %s was not compared: ask it with --endpoints, read its folder with --compare, or say --without %s if its data is gone", id, id))
		}
	}
	return problems
}

// describe says in the plan what is known of a member.
func (c *comparison) describe(id string, without []string) string {
	o, answered := c.others[id]
	switch {
	case id == c.own.member:
		return "this one"
	case answered:
		return fmt.Sprintf("ends at index %d of term %d (%s)", o.index, o.term, o.where)
	case slices.Contains(without, id):
		return "without it, by your word"
	}
	return "not compared"
}
