package certify

import (
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// Prefix begins the name of every scratch volume.
const Prefix = "holdfast-certify-"

// Run is the random id of one run: 16 hexadecimal digits.
type Run string

var runPattern = regexp.MustCompile(`^[0-9a-f]{16}$`)

// Valid tells whether it is the id of a run.
func (r Run) Valid() bool { return runPattern.MatchString(string(r)) }

// Name is that of a scratch volume of the run.
func (r Run) Name(what string) string { return Prefix + string(r) + "-" + what }

// Reason is why the run asks for a change, as the log keeps it: by it a volume is known to be the run's.
func (r Run) Reason() string { return "holdfast certify, run " + string(r) }

// Owns tells whether the name is one of the run's.
func (r Run) Owns(name string) bool { return strings.HasPrefix(name, r.Name("")) }

// runOf is the run whose name a volume has; empty: it has none's.
func runOf(name string) Run {
	rest, has := strings.CutPrefix(name, Prefix)
	if id, _, found := strings.Cut(rest, "-"); has && found && Run(id).Valid() {
		return Run(id)
	}
	return ""
}

// Origin is what the log has of how a volume was made, and of what became of it.
type Origin struct {
	Known  bool      // the controller that was asked has the entry, and all that followed
	Actor  string    // who asked
	Reason string    // why
	At     time.Time // when
	Used   string    // who used it, or made something of it, for another reason; empty: nobody
}

// OriginOf takes in one message of a volume's history. The first creation that was accepted is the origin; later ones joined it.
func OriginOf(before Origin, id string, m *adminpb.HistoryResponse) Origin {
	e := m.GetEntry()
	made := e.GetKind() == "create_volume" && e.GetOutcome().GetVolumeId() == id
	switch {
	case e == nil || e.GetOutcome().GetRejection() != nil:
	case e.GetGap():
		before.Known = false // what is said no more may be that it was used
	case made && before.At.IsZero():
		at, err := time.Parse(time.RFC3339, e.GetAt())
		return Origin{Known: err == nil, Actor: e.GetActor(), Reason: e.GetCommand().GetCall().GetReason(), At: at}
	case !before.At.IsZero() && before.Used == "" && uses(e, id) && (e.GetActor() != before.Actor || e.GetCommand().GetCall().GetReason() != before.Reason):
		before.Used = e.GetActor()
	}
	return before
}

// uses tells whether by an entry a volume may have content, or may be the source of one, that somebody needs. No run mounts anything.
func uses(e *adminpb.HistoryEntry, id string) bool {
	switch e.GetKind() {
	case "publish_volume", "stage_volume", "publish_target", "create_snapshot", "create_group_snapshot", "expand_volume":
		return true
	case "create_volume":
		return e.GetOutcome().GetVolumeId() != id // from it
	}
	return false
}

// Named are the volumes whose names begin with Prefix.
func Named(volumes []*adminpb.Volume) (found []*adminpb.Volume) {
	for _, v := range volumes {
		if strings.HasPrefix(v.GetName(), Prefix) {
			found = append(found, v)
		}
	}
	return found
}

// Leftovers parts the volumes that have a scratch volume's name into those that an interrupted run made, by their names and by what
// the log has of their origin, and those of others, each with the reason why it is not touched. One that was made after a time may be of
// a run that is under way.
func Leftovers(named []*adminpb.Volume, origins map[string]Origin, before time.Time) (left []*adminpb.Volume, others []string) {
	for _, v := range named {
		if why := notOurs(v, origins[v.GetId()], before); why != "" {
			others = append(others, "volume "+v.GetId()+" has the name "+v.GetName()+", and "+why)
			continue
		}
		left = append(left, v)
	}
	return left, others
}

func notOurs(v *adminpb.Volume, o Origin, before time.Time) string {
	run := runOf(v.GetName())
	switch {
	case run == "":
		return "that is no scratch volume's"
	case v.GetMadeBy() == "":
		return "no operator made it"
	case !o.Known:
		return "the log does not say any more who made it, and what was done with it"
	case o.Actor != v.GetMadeBy() || o.Reason != run.Reason():
		return "the log says that " + o.Actor + " made it for another reason"
	case o.Used != "":
		return o.Used + " used it since: delete it by hand where nothing needs it"
	case o.At.After(before):
		return "its run made it on " + o.At.UTC().Format(time.RFC3339) + ", so that it may be under way"
	}
	return ""
}
