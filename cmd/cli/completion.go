package cli

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/config"
)

// completionTime bounds what a shell waits for when it completes a name.
const completionTime = 1500 * time.Millisecond

// name is what a shell may complete: an argument, and what helps to choose it.
type name struct{ text, help string }

// names asks a cluster for all names of one kind. Each controller answers from its own state: a name that is a moment old will
// do, and completion works without a quorum.
type names func(context.Context, *admin.Client) []name

// argNames are the names that each command's arguments are of, by its path; the last one is for all arguments after it.
var argNames = map[string][]names{
	"volumes": {volumeNames}, "volumes list": {volumeNames}, "volumes replicas": {volumeNames}, "volumes replication": {volumeNames},
	"volumes tolerance": {volumeNames}, "volumes manifest": {volumeNames}, "volumes restore-header": {volumeNames},
	"volumes kept": {volumeNames}, "volumes kept list": {volumeNames}, "volumes kept remove": {keptNames, nodeNames},
	"volumes force-primary":      {volumeNames, nodeNames},
	"volumes enable-replication": {volumeNames}, "volumes disable-replication": {volumeNames}, "volumes promote": {volumeNames},
	"volumes demote": {volumeNames}, "volumes resync": {volumeNames},
	"groups": {volumeGroupNames}, "groups list": {volumeGroupNames}, "groups replication": {volumeGroupNames},
	"groups enable-replication": {volumeGroupNames}, "groups disable-replication": {volumeGroupNames}, "groups promote": {volumeGroupNames},
	"groups demote": {volumeGroupNames}, "groups resync": {volumeGroupNames},
	"snapshots": {snapshotNames}, "snapshots list": {snapshotNames}, "snapshots groups": {groupSnapshotNames},
	"nodes adopt": {nodeNames}, "nodes drain": {nodeNames}, "nodes undrain": {nodeNames}, "nodes evict": {nodeNames}, "nodes lost": {nodeNames},
	"nodes replace": {nodeNames}, "nodes reboot-safe": {nodeNames}, "nodes out-of-service": {nodeNames}, "nodes unfence": {fenceNames, fenceNames},
	"members demote": {memberNames}, "members promote": {memberNames}, "members remove": {memberNames}, "members replace": {memberNames},
	"members transfer": {memberNames},
	"operations show":  {operationNames}, "operations cancel": {operationNames}, "operations retry": {operationNames},
	"certs revoke": {roleNames, certificateNames}, "certs unrevoke": {roleNames, certificateNames},
	"history": {volumeNames},
}

// flagNames are the names that flags are of, where a command has them.
var flagNames = map[string]names{
	"node": nodeNames, "if-node": nodeNames, "peer-node": nodeNames, "without": nodeNames, "if-member": memberNames, "member": controllerNames, "pool": poolNames,
	"volume": volumeNames, "source": volumeNames, "snapshot": snapshotNames, "group": volumeGroupNames,
}

// isCompletion tells whether a shell asks for what completes a command line.
func isCompletion(args []string) bool {
	return len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd)
}

// addCompletion has every command that asks a cluster complete its arguments and flags. It is for the command that a shell runs
// alone: cobra keeps what completes a flag for as long as the process lives.
func addCompletion(root *cobra.Command) {
	for _, cmd := range withChildren(root) {
		_, path, _ := strings.Cut(cmd.CommandPath(), " ")
		if kinds := argNames[path]; len(kinds) > 0 {
			cmd.ValidArgsFunction = completeArgs(kinds)
		} else if cmd.ValidArgsFunction == nil && cmd.Flags().Lookup("config") == nil && cmd.PersistentFlags().Lookup("endpoints") != nil && !strings.Contains(cmd.Use, "FILE") {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		completeValues(cmd)
		if cmd.PersistentFlags().Lookup("endpoints") == nil {
			continue
		}
		for flag, kind := range flagNames {
			completeFlag(cmd, flag, func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
				return complete(cmd, kind, nil, typed), cobra.ShellCompDirectiveNoFileComp
			})
		}
	}
}

// completeValues completes the flags that take certain values, which needs no cluster.
func completeValues(cmd *cobra.Command) {
	completeFlag(cmd, "output", fixedNames(admin.Formats))
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if values := f.Annotations[valuesOfFlag]; len(values) > 0 {
			completeFlag(cmd, f.Name, fixedNames(values))
		}
	})
}

// valuesOfFlag marks a flag with the values that it takes.
const valuesOfFlag = "holdfast_values"

func setValues(f *pflag.Flag, values []string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[valuesOfFlag] = values
}

func withChildren(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		all = append(all, withChildren(sub)...)
	}
	return all
}

// completeFlag completes a flag where the command has it, and nothing else does already.
func completeFlag(cmd *cobra.Command, flag string, fn cobra.CompletionFunc) {
	known := cmd.Flags().Lookup(flag)
	if known == nil {
		known = cmd.PersistentFlags().Lookup(flag)
	}
	if _, has := cmd.GetFlagCompletionFunc(flag); known == nil || has {
		return
	}
	_ = cmd.RegisterFlagCompletionFunc(flag, fn) // it fails for a flag that there is not, or that has one
}

// fixedNames completes names that need no cluster. The last of several that are separated by commas is completed.
func fixedNames(all []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) (found []string, _ cobra.ShellCompDirective) {
		done := typed[:strings.LastIndex(typed, ",")+1]
		for _, text := range all {
			if strings.HasPrefix(done+text, typed) {
				found = append(found, done+text)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

func completeArgs(kinds []names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(kinds) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, kinds[len(args)], args, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// complete asks the cluster that the flags name, on the command line or in the environment. Whatever fails, there are just no
// names: a shell has no place for an error.
func complete(cmd *cobra.Command, kind names, args []string, typed string) (found []string) {
	if config.Fill(cmd.Flags(), os.LookupEnv) != nil {
		return nil
	}
	client, err := connectionOf(cmd.Flags()).client(cmd.Context())
	if err != nil {
		return nil
	}
	client.Timeout = completionTime / time.Duration(max(1, client.Endpoints()))
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	for _, n := range kind(ctx, client) {
		if strings.HasPrefix(n.text, typed) && isPlain(n.text) && !slices.Contains(args, n.text) {
			found = append(found, cobra.CompletionWithDesc(n.text, strings.Map(printable, n.help)))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// isPlain tells a name that a shell takes as it is. An object with another one is completed by its id.
func isPlain(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:@+=,", r)
	})
}

func printable(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

// connectionOf is the connection that a command's flags describe.
func connectionOf(flags *pflag.FlagSet) *connection {
	c := &connection{output: "table"}
	c.dir, _ = flags.GetString("dir")
	c.endpoints, _ = flags.GetStringSlice("endpoints")
	c.files.Cert, _ = flags.GetString("cert")
	c.files.Key, _ = flags.GetString("key")
	c.files.CA, _ = flags.GetString("ca")
	return c
}

// both are the names of one object: what it is called, and its id.
func both(id, called string) []name { return []name{{called, id}, {id, called}} }

func volumeNames(ctx context.Context, client *admin.Client) (found []name) {
	resp, _ := client.Volumes(ctx, &adminpb.VolumesRequest{Stale: true}) // what came in time
	for _, v := range resp.GetVolumes() {
		found = append(found, both(v.GetId(), v.GetName())...)
	}
	return found
}

func snapshotNames(ctx context.Context, client *admin.Client) (found []name) {
	resp, _ := client.Snapshots(ctx, &adminpb.SnapshotsRequest{Stale: true})
	for _, s := range resp.GetSnapshots() {
		found = append(found, both(s.GetId(), s.GetName())...)
	}
	return found
}

// keptNames are the volumes with kept copies, and the copies.
func keptNames(ctx context.Context, client *admin.Client) (found []name) {
	resp, _ := client.Snapshots(ctx, &adminpb.SnapshotsRequest{Stale: true, Kept: true})
	for _, s := range resp.GetSnapshots() {
		found = append(found, name{s.GetSource(), "a volume with kept copies"}, name{s.GetId(), "of volume " + s.GetSource() + " on " + s.GetNode()})
	}
	return found
}

func groupSnapshotNames(ctx context.Context, client *admin.Client) (found []name) {
	resp, _ := client.GroupSnapshots(ctx, &adminpb.GroupSnapshotsRequest{Stale: true})
	for _, g := range resp.GetGroups() {
		found = append(found, both(g.GetId(), g.GetName())...)
	}
	return found
}

func volumeGroupNames(ctx context.Context, client *admin.Client) (found []name) {
	resp, _ := client.VolumeGroups(ctx, &adminpb.VolumeGroupsRequest{Stale: true})
	for _, g := range resp.GetGroups() {
		found = append(found, both(g.GetId(), g.GetName())...)
	}
	return found
}

// answerTo is the answer of the first controller to a call, nil without one.
func answerTo[A any](ctx context.Context, client *admin.Client, call func(context.Context, adminpb.AdminClient) (*A, error)) (answer *A) {
	_ = client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		answer, err = call(ctx, api)
		return err
	})
	return answer
}

func nodesOf(ctx context.Context, client *admin.Client) []*adminpb.Node {
	return answerTo(ctx, client, func(ctx context.Context, api adminpb.AdminClient) (*adminpb.NodesResponse, error) {
		return api.Nodes(ctx, &adminpb.NodesRequest{Stale: true})
	}).GetNodes()
}

func nodeNames(ctx context.Context, client *admin.Client) (found []name) {
	for _, n := range nodesOf(ctx, client) {
		found = append(found, name{n.GetId(), n.GetState()})
	}
	return found
}

func poolNames(ctx context.Context, client *admin.Client) (found []name) {
	for _, n := range nodesOf(ctx, client) {
		for _, p := range n.GetPools() {
			found = append(found, name{p.GetId(), p.GetBackend() + " on " + n.GetId()})
		}
	}
	return found
}

func fenceNames(ctx context.Context, client *admin.Client) (found []name) {
	for _, f := range answerTo(ctx, client, func(ctx context.Context, api adminpb.AdminClient) (*adminpb.FencesResponse, error) {
		return api.Fences(ctx, &adminpb.FencesRequest{Stale: true})
	}).GetFences() {
		found = append(found, name{f.GetCidr(), "of " + f.GetOwner()})
	}
	return found
}

// memberNames asks for the status, which needs no quorum.
func memberNames(ctx context.Context, client *admin.Client) (found []name) {
	for _, m := range answerTo(ctx, client, func(ctx context.Context, api adminpb.AdminClient) (*adminpb.StatusResponse, error) {
		return api.Status(ctx, &adminpb.StatusRequest{})
	}).GetMembers() {
		found = append(found, name{m.GetId(), m.GetMemberId() + " " + m.GetRole()}, name{m.GetMemberId(), m.GetId() + " " + m.GetRole()})
	}
	return found
}

// controllerNames are the members by the names that they were given.
func controllerNames(ctx context.Context, client *admin.Client) (found []name) {
	for _, m := range answerTo(ctx, client, func(ctx context.Context, api adminpb.AdminClient) (*adminpb.StatusResponse, error) {
		return api.Status(ctx, &adminpb.StatusRequest{})
	}).GetMembers() {
		found = append(found, name{m.GetId(), m.GetRole()})
	}
	return found
}

func operationNames(ctx context.Context, client *admin.Client) (found []name) {
	for _, o := range answerTo(ctx, client, func(ctx context.Context, api adminpb.AdminClient) (*adminpb.OperationsResponse, error) {
		return api.Operations(ctx, &adminpb.OperationsRequest{Stale: true})
	}).GetOperations() {
		found = append(found, name{o.GetId(), o.GetKind() + " " + o.GetName() + ", " + o.GetState()})
	}
	return found
}

func roleNames(context.Context, *admin.Client) []name {
	return []name{{"controller", ""}, {"node", ""}, {"admin", ""}, {"viewer", ""}}
}

func certificateNames(ctx context.Context, client *admin.Client) (found []name) {
	for _, c := range answerTo(ctx, client, func(ctx context.Context, api adminpb.AdminClient) (*adminpb.CertificatesResponse, error) {
		return api.Certificates(ctx, &adminpb.CertificatesRequest{})
	}).GetCertificates() {
		found = append(found, name{c.GetName(), c.GetRole() + " until " + c.GetNotAfter()})
	}
	return found
}
