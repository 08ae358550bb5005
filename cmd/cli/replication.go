package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// replicationSource is what the verbs of replication are about: a volume, or a group with all its volumes.
type replicationSource struct {
	argument, what, name string
	set                  func(*adminpb.PlanRequest, string)
}

var (
	ofVolume = replicationSource{"VOLUME", "a volume's id or name", "a volume", func(r *adminpb.PlanRequest, id string) { r.Volume = id }}
	ofGroup  = replicationSource{"GROUP", "a volume group's id or name", "all volumes of a group", func(r *adminpb.PlanRequest, id string) { r.Group = id }}
)

// replicationCommands are the verbs of replication between two sites.
func replicationCommands(of replicationSource) []*cobra.Command {
	return []*cobra.Command{of.enableCommand(), of.disableCommand(), of.promoteCommand(), of.demoteCommand(), of.resyncCommand()}
}

// command makes a command for a verb with a plan about a relation.
func (of replicationSource) command(verb, short, long string) (*planVerb, *cobra.Command) {
	p := &planVerb{req: &adminpb.PlanRequest{Verb: verb}, ofSites: true}
	args := func(cmd *cobra.Command, args []string) error {
		if err := exactArgs(of.what)(cmd, args); err != nil {
			return err
		}
		return p.checkSites()
	}
	cmd := apiCommand(verb+" "+of.argument, short, args, changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			of.set(p.req, args[0])
			return p.run(ctx, c, client, cmd)
		})
	cmd.Long = long
	cmd.Flags().StringVar(&p.req.Site, "site", "", "the `site` that it is done for, as if its orchestrator asked; required")
	cmd.Flags().BoolVar(&p.yes, "yes", false, "carry the plan out; without it, the plan is only shown")
	cmd.Flags().Uint64Var(&p.req.Role, "role", 0, "the role's `index`, as the plan shows it: nothing is done if the role moved since; 0 is the present one")
	reasonFlag(cmd, &p.req.Reason)
	p.waitFlag(cmd)
	return p, cmd
}

// checkSites requires what has no default.
func (p *planVerb) checkSites() error {
	enable := p.req.GetVerb() == "enable-replication"
	switch {
	case p.req.GetSite() == "":
		return exit.Usagef("name the site with --site")
	case enable && p.req.GetPeerSite() == "":
		return exit.Usagef("name the other site with --peer-site")
	case enable && p.req.GetPeerSite() == p.req.GetSite():
		return exit.Usagef("--site and --peer-site are the same, %s: name two sites", p.req.GetSite())
	case p.req.GetProtocol() != "" && p.req.GetProtocol() != "A" && p.req.GetProtocol() != "C":
		return exit.Usagef("there is no protocol %q: choose A or C", p.req.GetProtocol())
	case p.req.GetDiscardUnkept() && p.req.GetVerb() == "resync" && !p.req.GetForce():
		return exit.Usagef("--discard-unkept goes with --force: nothing else discards")
	case p.req.GetSeparately() && p.req.GetVerb() == "promote" && !p.req.GetForce():
		return exit.Usagef("--separately goes with --force: nothing else promotes volumes of different instants")
	}
	return nil
}

func (of replicationSource) enableCommand() *cobra.Command {
	p, cmd := of.command("enable-replication", "Replicate "+of.name+" between two sites",
		"Makes --site primary of a relation with --peer-site, or records that --site claims the one that there is. A volume that has\n"+
			"no replica at the peer site gets one; one that is not replicated at all must be unpublished, and is converted: its\n"+
			"content stays where it is. What cannot go on is undone.")
	cmd.Flags().StringVar(&p.req.PeerSite, "peer-site", "", "the other `site`; required")
	cmd.Flags().StringVar(&p.req.PeerNode, "peer-node", "", "the `node` that gets the replica there; without it, one is chosen")
	cmd.Flags().StringVar(&p.req.Protocol, "protocol", "", "`A or C`, of a volume that is converted: with A a write is acknowledged before the other site has it; C by default")
	cmd.Flags().BoolVar(&p.req.DiscardUnkept, "discard-unkept", false, "keep nothing before a resynchronisation overwrites or discards it")
	cmd.Flags().BoolVar(&p.req.Separately, "separately", false, "of a group: let its volumes be of different instants at the site that is left behind")
	cmd.Flags().BoolVar(&p.req.FreezeIsolated, "freeze-isolated", false, "suspend the I/O of a primary that reaches neither its peer nor a controller")
	return cmd
}

func (of replicationSource) disableCommand() *cobra.Command {
	_, cmd := of.command("disable-replication", "End the replication of "+of.name+" between two sites",
		"Done for the primary site, the replication ends: replicas that were made for it are removed, others stay. Done for the other\n"+
			"site, only that site's claim ends. A conversion that is under way is undone.")
	return cmd
}

func (of replicationSource) promoteCommand() *cobra.Command {
	p, cmd := of.command("promote", "Give a site the role of primary",
		"Makes --site primary, of all volumes or of none. Where the other site is primary it must be demoted, or none of its hosts may be\n"+
			"reachable: fence them if they still run. --force is consent to lose writes that this site did not get; the plan says of\n"+
			"each volume what is given up. It is refused while the other site can be reached.")
	cmd.Flags().BoolVar(&p.req.Force, "force", false, "consent to lose acknowledged writes that the site did not get")
	cmd.Flags().BoolVar(&p.req.Separately, "separately", false, "with --force, of a group: accept that its volumes are of different instants, as some were brought up to date before the other site died")
	return cmd
}

func (of replicationSource) demoteCommand() *cobra.Command {
	_, cmd := of.command("demote", "End a site's role of primary",
		"Ends the role of --site, whose volumes must be unpublished. No data are given up. Done for a site that lost the role while it\n"+
			"could not be asked, the site accepts that: without it, or a resync, it is not promoted again.")
	return cmd
}

func (of replicationSource) resyncCommand() *cobra.Command {
	p, cmd := of.command("resync", "Let the replicas of a site take part again",
		"Lets the replicas of --site take part again. Which side has everything is what the log says: the only replica that is up to date\n"+
			"is never overwritten. What a site had when the other one was promoted by force may be the newer content: it is discarded\n"+
			"with --force only, after it was kept in a snapshot (see `volumes kept`). Without room for that, --discard-unkept.")
	cmd.Flags().BoolVar(&p.req.Force, "force", false, "discard what was given up by a forced promotion; it is kept first")
	cmd.Flags().BoolVar(&p.req.DiscardUnkept, "discard-unkept", false, "with --force: discard it also where it cannot be kept")
	return cmd
}
