package fsm

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func answered(t testing.TB, s *State, body proto.Message) *fsmpb.Outcome {
	t.Helper()
	out, rej := s.AnswerExpired(envelope(controller, "late", 1, body))
	require.Nil(t, rej)
	return out
}

func notAnswered(t testing.TB, s *State, why Reason, body proto.Message) {
	t.Helper()
	out, rej := s.AnswerExpired(envelope(controller, "late", 1, body))
	require.Nil(t, out)
	require.Equal(t, why, rej.Why(), rej)
}

// S4: a command that expired is answered with what Apply would answer without a change of the
// state; where Apply would change it, it is Busy; a rejection is Apply's.
func TestS4_AnExpiredCommandIsAnsweredAsApplyWould(t *testing.T) {
	counts := map[string]int{}
	for seed := range int64(24) {
		p := newPlayer(t, &seededDice{r: rand.New(rand.NewSource(seed)), left: 600})
		for p.more() {
			e := p.next()
			requireSameAnswer(t, p.w.s, e.cmd, counts)
			p.w.s.Apply(e.index, e.cmd)
		}
	}
	for _, c := range []string{"CreateVolume", "DeleteVolume", "PublishVolume", "UnpublishVolume", "ExpandVolume", "ModifyVolume",
		"CreateSnapshot", "DeleteSnapshot", "CreateGroupSnapshot", "DeleteGroupSnapshot"} {
		require.NotZero(t, counts[c+" joined"], c)
	}
	require.NotZero(t, counts["CreateVolume rejected"])
	require.NotZero(t, counts["PublishVolume rejected"])
}

// requireSameAnswer applies the command, as a new one, to a fork, and compares.
func requireSameAnswer(t *testing.T, s *State, cmd *fsmpb.Command, counts map[string]int) {
	t.Helper()
	field := cmd.ProtoReflect().WhichOneof(oneof)
	name := string(field.Message().Name())
	if s.Cluster().ID == "" || subjectOf(cmd) == "the command" || TooNew(s.Cluster().FeatureLevel, cmd) != nil {
		return
	}
	if refused := s.checkEndpoint(cmd); refused != nil {
		answer, rej := s.AnswerExpired(cmd)
		require.Nil(t, answer)
		require.Equal(t, refused, rej)
		return
	}
	hash := s.Hash()
	answer, answerRej := s.AnswerExpired(cmd)
	require.Equal(t, hash, s.Hash(), "it only reads")
	fork := s.Fork()
	index, actor := s.Cluster().Index+1, controller
	if hasRole(cmd.GetActor(), "admin/") {
		actor = cmd.GetActor() // its fences are its own
	}
	fresh := through(cmd.GetSite(), envelope(actor, fmt.Sprint("fresh ", index), index-1, cmd.ProtoReflect().Get(field).Message().Interface()))
	applied := fork.Apply(index, fresh).Outcome
	switch {
	case answerRej == nil:
		counts[name+" joined"]++
		answer.Index = index
		require.True(t, proto.Equal(applied, answer), "%s: applied %v, answered %v", cmd, applied, answer)
		require.Zero(t, fork.writes, "%s: it was answered, and applying it changes the state", cmd)
	case answerRej.Why() != Busy:
		counts[name+" rejected"]++
		require.Equal(t, answerRej.Why(), reasonOf(applied), "%s", cmd)
		require.Equal(t, clip(answerRej.Message), applied.GetRejection().GetMessage())
	case fork.writes == 0 && !isOfRelation(fresh.ProtoReflect().Get(field).Message().Interface()): // a role call is decided anew, under the role of then (S39)
		require.NotNil(t, applied.GetRejection(), "%s: Apply joins what exists: %v", cmd, applied)
	}
}

// S32: the controllers of site A, one of which was started with the other site's name, repeat calls whose commands
// came too late. They learn nothing of what is at B under the same names, which B's own learn.
func TestS32_AnExpiredCommandIsAnsweredToItsOwnSite(t *testing.T) {
	w := newSites(t)
	w.readyAt("B", 1, create(1))
	group := &fsmpb.CreateVolumeGroup{VolumeGroupId: volumeGroupID(1), Name: "data", Fingerprint: []byte("f"), VolumeIds: []string{volumeID(1)}, MaxVolumes: 9}
	w.okAt("B", group)
	for _, body := range []proto.Message{
		create(1), &fsmpb.DeleteVolume{VolumeId: volumeID(9)}, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)}, group,
		&fsmpb.ModifyVolumeGroup{VolumeGroupId: volumeGroupID(1), VolumeIds: []string{volumeID(1)}, MaxVolumes: 9},
	} {
		late := func(site, actor string) (*fsmpb.Outcome, *Rejection) {
			return w.s.AnswerExpired(through(site, envelope(actor, "late", 1, body)))
		}
		for actor, why := range map[string]Reason{controllerA: Forbidden, "controller/c9": Unreachable} {
			out, rej := late("B", actor)
			require.Nil(t, out, "%s: %T", actor, body)
			require.Equal(t, why, rej.Why(), "%s: %T", actor, body)
		}
		for _, actor := range []string{controllerB, "admin/ann"} {
			out, rej := late("B", actor)
			if _, creates := body.(*fsmpb.CreateVolume); creates && actor != controllerB {
				require.Equal(t, Incompatible, rej.Why(), "the volume is an orchestrator's")
				continue
			}
			require.Nil(t, rej, "%s: %T", actor, body)
			require.NotNil(t, out)
		}
	}
	w.s.cluster.FeatureLevel = Level1
	out, rej := w.s.AnswerExpired(through("B", envelope(controllerA, "late", 1, &fsmpb.DeleteVolume{VolumeId: volumeID(9)})))
	require.Nil(t, rej, "at level 1 no command says its site")
	require.NotNil(t, out)
}
