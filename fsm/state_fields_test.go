package fsm

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S23 and S24: every field of every record is in the hash, and comes back from the dump. What
// is left out is named with its reason, and is in it no longer than that holds.
func TestEveryFieldOfARecordIsHashedAndDumped(t *testing.T) {
	skipUnderRace(t)
	for name, forgotten := range map[string]func() []string{
		"cluster":                 clusterEntity().forgotten,
		"cluster without sweeps":  clusterWithoutSweeps().forgotten,
		"node":                    nodeEntity().forgotten,
		"volume from a snapshot":  volumeEntity(Ready{}, "Volume").forgotten,
		"volume from a volume":    volumeEntity(Ready{}, "Snapshot").forgotten,
		"volume that is creating": volumeEntity(Creating{}, "Volume").forgotten,
		"volume that is deleting": volumeEntity(Deleting{}, "Volume").forgotten,
		"volume that failed":      volumeEntity(Failed{}, "Volume").forgotten,
		"snapshot":                snapshotEntity().forgotten,
		"group":                   groupEntity().forgotten,
		"volume group":            volumeGroupEntity().forgotten,
		"answer":                  answerEntity().forgotten,
		"fence":                   fenceEntity().forgotten,
		"revocation":              revocationEntity().forgotten,
		"join token":              joinTokenEntity().forgotten,
	} {
		t.Run(name, func(t *testing.T) { require.Empty(t, forgotten()) })
	}
}

func clusterEntity() entity[Cluster] {
	return entity[Cluster]{
		sample: func() Cluster {
			c := filled[Cluster]()
			c.FeatureLevel, c.Index = MaxFeatureLevel, 1<<40
			for i := range c.Sweeps {
				c.Sweeps[i].Epoch.Index = uint64(2_000_000 * (i + 1)) // in order, and above the cursors
			}
			return c
		},
		put: func(s *State, c Cluster) { s.cluster = c },
		get: (*State).Cluster,
		fixed: map[string]string{
			"Index":                "clusterWithoutSweeps changes it: sweeps are of entries up to it",
			"FeatureLevel":         "clusterWithoutSweeps changes it: level 1 has no sweeps",
			"Sweeps[].Epoch.Index": "they are in order; the cursor stays below it",
		},
	}
}

// clusterWithoutSweeps is a cluster of which every number may be another one.
func clusterWithoutSweeps() entity[Cluster] {
	k := clusterEntity()
	k.sample = func() Cluster {
		c := filled[Cluster]()
		c.Sweeps, c.FeatureLevel = nil, MaxFeatureLevel
		return c
	}
	k.fixed = map[string]string{"FeatureLevel": "a build reads the levels up to its own; TestS72_RaisingTheLevelKeepsEveryRecord raises it", "Sweeps (one less)": "there are none"}
	return k
}

func nodeEntity() entity[Node] {
	return entity[Node]{
		sample: filled[Node],
		put:    func(s *State, n Node) { s.storeNode(n) },
		get: func(s *State) (found Node) {
			for n := range s.Nodes() {
				found = *n
			}
			return found
		},
	}
}

// volumeEntity is a volume in the phase, with the members of it set. A volume has one source
// at most: without names the field that stays empty.
func volumeEntity(phase Phase, without string) entity[Volume] {
	return entity[Volume]{
		sample: func() Volume {
			v := filled[Volume]()
			full := reflect.New(reflect.TypeOf(phase)).Elem()
			n := int64(500)
			fillRecord(full, &n)
			v.Phase = full.Interface().(Phase)
			reflect.ValueOf(&v.Source).Elem().FieldByName(without).SetZero()
			v.Replication.Leaving = []HostID{v.Replicas[1].Host}
			return v
		},
		put: func(s *State, v Volume) { s.storeVolume(&volumeChange{}, v) },
		get: func(s *State) (found Volume) {
			for v := range s.storedVolumes() {
				found = *v
			}
			return found
		},
		unhashed: map[string]string{
			"Replicas[1].ReplicaSync.NotKeptReason": "a text for people, and of a replica that is leaving",
		},
		fixed: map[string]string{
			"Source." + without:             "a volume is made from a snapshot or from a volume",
			"Replicas[1].Host":              "Leaving names it",
			"Replicas[1].ReplicaSync (nil)": "Leaving says that it is kept",
			"Replicas (one less)":           "Leaving names the last",
			"Replication.Leaving[]":         "it names a replica",
			"Replication (nil)":             "a local volume has no ReplicaSync either",
			"Relation.Sites (one less)":     "a relation has two",
		},
	}
}

func snapshotEntity() entity[Snapshot] {
	return entity[Snapshot]{
		sample: filled[Snapshot],
		put:    func(s *State, n Snapshot) { s.storeSnapshot(n) },
		get: func(s *State) (found Snapshot) {
			for n := range s.storedSnapshots() {
				found = *n
			}
			return found
		},
	}
}

func groupEntity() entity[GroupSnapshot] {
	return entity[GroupSnapshot]{
		sample: filled[GroupSnapshot],
		put:    func(s *State, g GroupSnapshot) { s.storeGroup(g) },
		get: func(s *State) (found GroupSnapshot) {
			for g := range s.storedGroups() {
				found = *g
			}
			return found
		},
	}
}

func volumeGroupEntity() entity[VolumeGroup] {
	return entity[VolumeGroup]{
		sample: filled[VolumeGroup],
		put:    func(s *State, g VolumeGroup) { s.storeVolumeGroup(g) },
		get: func(s *State) (found VolumeGroup) {
			for g := range s.VolumeGroups("") {
				found = *g
			}
			return found
		},
		fixed: map[string]string{"Relation.Sites (one less)": "a relation has two"},
	}
}

func fenceEntity() entity[Fence] {
	return entity[Fence]{
		sample: filled[Fence],
		put:    func(s *State, f Fence) { s.storeFence(f) },
		get: func(s *State) (found Fence) {
			for f := range s.Fences() {
				found = *f
			}
			return found
		},
	}
}

func revocationEntity() entity[Revocation] {
	return entity[Revocation]{
		sample: filled[Revocation],
		put:    func(s *State, r Revocation) { s.storeRevocation(r) },
		get: func(s *State) (found Revocation) {
			for r := range s.Revocations() {
				found = *r
			}
			return found
		},
	}
}

func joinTokenEntity() entity[JoinToken] {
	return entity[JoinToken]{
		sample: filled[JoinToken],
		put:    func(s *State, t JoinToken) { s.storeJoinToken(t) },
		get: func(s *State) (found JoinToken) {
			for t := range s.JoinTokens() {
				found = *t
			}
			return found
		},
	}
}

// answerFields is an answer with fields that reflection may set.
type answerFields struct {
	Request, Actor string
	Index          uint64
	TextUnhashed   bool
	Volume         VolumeID
	Outcome        *fsmpb.Outcome
}

func answerEntity() entity[answerFields] {
	return entity[answerFields]{
		sample: filled[answerFields],
		put: func(s *State, f answerFields) {
			f.Outcome.Index, f.Outcome.VolumeId = f.Index, string(f.Volume)
			key := answerKey{request: [RequestIDLen]byte(bytesOf(f.Request, RequestIDLen)), actor: f.Actor}
			s.putAnswer(&answer{key: key, index: f.Index, outcome: f.Outcome, textUnhashed: f.TextUnhashed})
		},
		get: func(s *State) answerFields {
			_, a, _ := s.answers.Max()
			return answerFields{
				Request: string(a.key.request[:]), Actor: a.key.actor, Index: a.index, TextUnhashed: a.textUnhashed,
				Volume: VolumeID(a.outcome.VolumeId), Outcome: a.outcome,
			}
		},
		same: func(a, b answerFields) bool {
			before, after := a.Outcome, b.Outcome
			a.Request, a.Outcome, b.Outcome = string(bytesOf(a.Request, RequestIDLen)), nil, nil
			return a == b && proto.Equal(before, after)
		},
		unhashed: map[string]string{"Outcome.Rejection.Message": "two builds may word it differently (S72)"},
		fixed: map[string]string{
			"Outcome.Index": "is Index", "Outcome.VolumeId": "is Volume", "Outcome (nil)": "every answer has one",
		},
	}
}

// TestAnAnswerHasTheFieldsThatAreChecked: answerFields stands for answer.
func TestAnAnswerHasTheFieldsThatAreChecked(t *testing.T) {
	var fields []string
	for i := range reflect.TypeFor[answer]().NumField() {
		fields = append(fields, reflect.TypeFor[answer]().Field(i).Name)
	}
	require.Equal(t, []string{"key", "index", "outcome", "textUnhashed", "hash"}, fields)
	require.Equal(t, 2, reflect.TypeFor[answerKey]().NumField())
}

// planted is a record with a field that nobody knows of yet.
type planted[T any] struct {
	Record  T
	Planted uint64
}

// plantedIn is the entity of records with a planted field: hashed and dumped say which of
// the two descriptions has it.
func plantedIn[T any](k entity[T], hashed, dumped bool) entity[planted[T]] {
	under := func(paths map[string]string) map[string]string {
		renamed := map[string]string{}
		for path, why := range paths {
			renamed["Record."+path] = why
		}
		return renamed
	}
	k.fixed, k.unhashed = under(k.fixed), under(k.unhashed)
	var last uint64
	return entity[planted[T]]{
		sample: func() planted[T] { return planted[T]{Record: k.sample(), Planted: 1} },
		put: func(s *State, v planted[T]) {
			k.put(s, v.Record)
			if last = v.Planted; hashed {
				s.sum[0] += v.Planted
			}
		},
		get: func(s *State) planted[T] {
			if !dumped {
				last = 0
			}
			return planted[T]{Record: k.get(s), Planted: last}
		},
		fixed: k.fixed, unhashed: k.unhashed,
	}
}

// TestAFieldThatADescriptionForgetsIsFound is the test of the test above.
func TestAFieldThatADescriptionForgetsIsFound(t *testing.T) {
	skipUnderRace(t)
	require.Contains(t, plantedIn(nodeEntity(), false, true).forgotten(), "hash: Planted")
	require.Contains(t, plantedIn(nodeEntity(), true, false).forgotten(), "dump: Planted")
	require.Equal(t, []string{"hash: Planted"}, plantedIn(volumeEntity(Ready{}, "Volume"), false, true).forgotten())
	require.Contains(t, plantedIn(snapshotEntity(), false, false).forgotten(), "hash: Planted")
	require.Contains(t, plantedIn(groupEntity(), false, false).forgotten(), "dump: Planted")
	k := nodeEntity()
	k.unhashed = map[string]string{"Labels[].Value": "it is hashed, so this row is wrong"}
	require.Contains(t, k.forgotten(), "hash: Labels[0].Value")
}
