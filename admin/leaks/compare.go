package leaks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// The kinds of findings.
const (
	Leak           = "leak"            // a volume that the list does not name
	LeakedSnapshot = "leaked-snapshot" // a snapshot that it does not name
	Lost           = "lost"            // a volume that only the list names
	LostSnapshot   = "lost-snapshot"   // a snapshot that only the list names
	Attached       = "attached-only"   // the list has an attachment, and it is not published there
	Published      = "published-only"  // it is published there, and the list has no attachment
)

// State is what Holdfast has.
type State struct {
	Volumes   []*adminpb.Volume
	Snapshots []*adminpb.Snapshot
	// Site is the orchestrator's: volumes of others are not in its list. Empty: there is one site.
	Site string
	// Made and Used are when, and by whom, a volume or snapshot was created and last published, by its id, as far as the
	// journal knows.
	Made, Used map[string]Event
}

// Event is what the journal says of one command.
type Event struct {
	At    time.Time
	Actor string
}

// Options of a comparison.
type Options struct {
	// TakenBefore is the moment before which something must have been made to count: the list's own, less a margin.
	TakenBefore time.Time
	// Remedy is the command that ends a finding of a kind.
	Remedy func(kind, id, record string) string
}

type comparison struct {
	*List
	state State
	Options
	out    *adminpb.LeaksResponse
	listed map[string]Object
	byPV   map[string]string // the handle of a record, by its name
}

// Compare says what only one of the two has, in order of kind and id.
func Compare(l *List, state State, o Options) *adminpb.LeaksResponse {
	c := &comparison{List: l, state: state, Options: o, out: &adminpb.LeaksResponse{}, listed: map[string]Object{}, byPV: map[string]string{}}
	for _, object := range slices.Concat(l.Volumes, l.Snapshots) {
		c.listed[object.Handle] = object
		c.byPV[object.Name] = object.Handle
	}
	if l.HasVolumes {
		c.compareVolumes()
	}
	if l.HasSnapshots {
		c.compareSnapshots()
	}
	if l.HasAttachments && l.HasVolumes {
		c.compareAttachments()
	}
	return c.out
}

// isOfSite tells whether the orchestrator's list may have the volume. Where else it has replicas makes no difference: the
// orchestrators there do not know it.
func (c *comparison) isOfSite(v *adminpb.Volume) bool {
	return c.state.Site == "" || v.GetOrigin() == c.state.Site || v.GetHome() == c.state.Site
}

// compareVolumes passes over what operators made: no orchestrator's list has to name it.
func (c *comparison) compareVolumes() {
	known := map[string]bool{}
	for _, v := range c.state.Volumes {
		known[v.GetId()] = v.GetPhase() != "deleting"
		if _, listed := c.listed[v.GetId()]; listed || v.GetPhase() != "ready" || v.GetMadeBy() != "" || !c.isOfSite(v) {
			continue
		}
		c.out.Checked++
		f := &adminpb.Leak{Kind: Leak, Id: v.GetId(), Name: v.GetName(), SizeBytes: v.GetSizeBytes()}
		if claim := v.GetClaim(); claim != nil {
			f.Claim = qualified(claim.GetNamespace(), claim.GetName())
		}
		for _, p := range v.GetPublications() {
			f.Nodes = append(f.Nodes, p.GetNode())
		}
		c.addLeak(f)
	}
	c.addLost(Lost, c.List.Volumes, known)
}

func (c *comparison) compareSnapshots() {
	known := map[string]bool{}
	ofSite := map[string]bool{}
	for _, v := range c.state.Volumes {
		ofSite[v.GetId()] = c.isOfSite(v) && v.GetMadeBy() == ""
	}
	for _, s := range c.state.Snapshots {
		known[s.GetId()] = s.GetPhase() != "deleting"
		site, sourceKnown := ofSite[s.GetSource()]
		if _, listed := c.listed[s.GetId()]; listed || s.GetPhase() != "ready" || s.GetKept() != nil || !site && (sourceKnown || c.state.Site != "") {
			continue
		}
		c.addLeak(&adminpb.Leak{Kind: LeakedSnapshot, Id: s.GetId(), Name: s.GetName(), SizeBytes: s.GetSizeBytes(), Nodes: []string{s.GetNode()}})
	}
	c.addLost(LostSnapshot, c.List.Snapshots, known)
}

// addLeak adds what the list does not name, apart where it may be too young to be in it: also where the journal does not
// say when it was made.
func (c *comparison) addLeak(f *adminpb.Leak) {
	made, used := c.state.Made[f.GetId()], c.state.Used[f.GetId()]
	f.Made, f.MadeBy, f.LastUse = formatTime(made.At), made.Actor, formatTime(used.At)
	f.Remedy = c.Remedy(f.GetKind(), f.GetId(), "")
	if made.At.IsZero() || made.At.After(c.TakenBefore) {
		f.Remedy = ""
		c.out.Young = append(c.out.Young, f)
		return
	}
	c.out.Found = append(c.out.Found, f)
}

func (c *comparison) addLost(kind string, listed []Object, known map[string]bool) {
	for _, o := range listed {
		c.out.Checked++
		alive, recorded := known[o.Handle]
		if alive {
			continue
		}
		f := &adminpb.Leak{Kind: kind, Id: o.Handle, Record: o.Name, Claim: o.Claim, Remedy: c.Remedy(kind, o.Handle, o.Name)}
		if f.Detail = "Holdfast does not know it"; recorded {
			f.Detail = "it is being deleted"
		}
		c.out.Found = append(c.out.Found, f)
	}
}

func (c *comparison) compareAttachments() {
	attached := map[string]string{}
	for _, a := range c.Attachments {
		attached[c.byPV[a.PV]+" "+a.Node] = a.Name
	}
	published := map[string]bool{}
	for _, v := range c.state.Volumes {
		for _, p := range v.GetPublications() {
			key := v.GetId() + " " + p.GetNode()
			published[key] = true
			if _, listed := c.listed[v.GetId()]; listed && attached[key] == "" {
				c.out.Found = append(c.out.Found, &adminpb.Leak{
					Kind: Published, Id: v.GetId(), Name: v.GetName(), Record: c.listed[v.GetId()].Name, Nodes: []string{p.GetNode()}, SizeBytes: v.GetSizeBytes(),
					Remedy: c.Remedy(Published, v.GetId(), ""),
				})
			}
		}
	}
	for _, a := range c.Attachments {
		handle, ok := c.byPV[a.PV]
		if ok && !published[handle+" "+a.Node] {
			c.out.Found = append(c.out.Found, &adminpb.Leak{Kind: Attached, Id: handle, Record: a.Name, Nodes: []string{a.Node}, Remedy: c.Remedy(Attached, handle, a.Name)})
		}
	}
}

// Sites are the sites of all volumes, sorted.
func Sites(volumes []*adminpb.Volume) []string {
	var all []string
	for _, v := range volumes {
		all = append(all, v.GetHome(), v.GetOrigin())
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(s string) bool { return s == "" })
}

// CheckSite refuses a list of one orchestrator where there are several and it is not said which: what others have would be
// leaks.
func CheckSite(volumes []*adminpb.Volume, site string) error {
	switch sites := Sites(volumes); {
	case site == "" && len(sites) > 1:
		return fmt.Errorf("there are volumes of the sites %s: say with --site whose orchestrator's list it is", strings.Join(sites, " and "))
	case site != "" && !slices.Contains(sites, site):
		return fmt.Errorf("no volume is of site %s", site)
	}
	return nil
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
