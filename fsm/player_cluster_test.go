package fsm

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// chooseFence fences or unfences, for one of two sites' orchestrators or for an operator.
func (p *player) chooseFence() (string, proto.Message) {
	actor := []string{"controller/c1", "admin/ann"}[p.roll(2)]
	cidrs := []string{fmt.Sprintf("10.0.0.%d/%d", p.roll(5), 30+p.roll(3))}
	if p.roll(6) == 0 {
		cidrs = append(cidrs, []string{"fd00::/8", "10.0.0.0/24", "nonsense"}[p.roll(3)])
	}
	if p.roll(2) == 0 {
		return actor, &fsmpb.UnfenceNetwork{Cidrs: cidrs}
	}
	c := &fsmpb.FenceNetwork{Cidrs: cidrs}
	if p.roll(4) == 0 {
		n := p.node()
		c.ExpectHosts = []*fsmpb.FencedHost{{NodeId: string(n.ID), HostId: string(n.Host)}}
	}
	return actor, c
}

func (p *player) clusterCommand() (string, proto.Message) {
	c := p.w.s.Cluster()
	switch p.roll(8) {
	case 0:
		if p.roll(2) > 0 {
			break
		}
		return "admin/ann", &fsmpb.ReplaceIncarnation{Counter: c.Incarnation + uint64(p.roll(3)), IncarnationId: bytesOf(fmt.Sprint(p.at), 16)}
	case 1:
		return "admin/ann", &fsmpb.SetFeatureLevel{Level: uint32(p.roll(3)) + uint32(p.at%2)}
	case 6:
		if p.at%2 == 0 {
			return p.joinToken()
		}
		return "admin/ann", p.revocation()
	case 2:
		if p.at%2 == 0 {
			return "admin/ann", &fsmpb.SetMemberRole{MemberId: fmt.Sprint("member-", p.at%6), NonVoter: p.at%8 < 5}
		}
		return "admin/ann", bootstrap()
	case 4, 5:
		return "controller/c1", p.volumeGroupCommand()
	case 3:
		return "controller/c1", &fsmpb.RegisterMember{Name: "c1", MemberId: fmt.Sprint("member-", p.roll(2)), Site: []string{DefaultSite, "A"}[p.roll(2)]}
	}
	hash := p.w.s.Hash()
	return "controller/c1", &fsmpb.Checkpoint{Index: c.Index, Hash: hash[:]}
}

// revocation revokes or unrevokes an identity, by where the log is.
func (p *player) revocation() proto.Message {
	at := p.w.s.Cluster().Index
	role, name := []string{"node", "admin", "controller"}[at%3], []string{"ann", "bob"}[at/3%2]
	if at/6%3 == 0 {
		c := &fsmpb.UnrevokeIdentity{Role: role, Name: name, Since: at}
		if r, ok := p.w.s.Revocation(role, name); ok && at/18%3 > 0 {
			c.Since = r.Since
		}
		return c
	}
	c := &fsmpb.RevokeIdentity{Role: role, Name: name, Reason: "lost", Voters: []*fsmpb.VoterCertificate{{Name: "ann"}, {Name: "x"}, {Name: "y"}}}
	if at/18%2 == 0 {
		c.Serials = []string{fmt.Sprintf("%x", 10+at/36%9)}
	} else {
		c.IssuedUntil = nanosOf(p.w.s.Cluster().Time) + 1 - int64(at/36%9)
	}
	return c
}

// joinToken creates, uses or revokes a token, by where the log is.
func (p *player) joinToken() (string, proto.Message) {
	at := int(p.at / 2)
	token := createToken(at/7%3, []string{"controller", "node"}[at/2%2], []string{"ann", "n1"}[at/3%2])
	switch at % 4 {
	case 0:
		if at/4%3 == 0 {
			return "controller/c1", attestedToken(3+at/7%3, []string{"ann", "n1"}[at/3%2], byte(at/5%2))
		}
		return "controller/c1", useToken(token, byte(at/5%2))
	case 1:
		return "admin/ann", &fsmpb.RevokeJoinToken{TokenId: token.GetTokenId()}
	}
	return "admin/ann", token
}

// volumeGroupCommand makes, changes or deletes a group of volumes.
func (p *player) volumeGroupCommand() proto.Message {
	n := p.roll(3)
	var members []int
	for range p.roll(3) {
		members = append(members, 1+p.roll(1+p.created))
	}
	switch p.roll(5) {
	case 0:
		return &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(n), KeepVolumes: p.roll(2) > 0}
	case 1, 2:
		return modifyVolumeGroup(n, members...)
	}
	return createVolumeGroup(n, members...)
}
