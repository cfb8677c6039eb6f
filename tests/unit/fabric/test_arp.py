# SPDX-License-Identifier: Apache-2.0
from contextlib import suppress

import pytest
from scapy.compat import raw
from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

from nicemu.fabric import AnsweringPort, loopback_pair, mac_of_host
from nicemu.fabric.ports.arp import Arp, answer_for
from nicemu.wire import BROADCAST_MAC, MalformedError, parse_ipv4

IP_US, IP_THEM = "10.7.0.1", "10.7.0.2"
US, THEM = parse_ipv4(IP_US), parse_ipv4(IP_THEM)
MAC_US, MAC_THEM = mac_of_host(US), mac_of_host(THEM)


def arp_request(target: str = IP_US) -> bytes:
    return raw(Ether(dst=BROADCAST_MAC, src=MAC_THEM) / ARP(op=1, hwsrc=MAC_THEM, psrc=IP_THEM, pdst=target))


def ping(data: bytes = b"hello", flags: str = "DF") -> bytes:
    return raw(
        Ether(dst=MAC_US, src=MAC_THEM)
        / IP(src=IP_THEM, dst=IP_US, id=77, flags=flags)
        / ICMP(type=8, id=3, seq=4)
        / Raw(data)
    )


def test_who_asks_for_our_address_is_told_our_mac() -> None:
    answer = Ether(answer_for(arp_request(), MAC_US, US) or b"")
    assert (answer.dst, answer.src) == (MAC_THEM.hex(":"), MAC_US.hex(":"))
    assert (answer[ARP].op, answer[ARP].hwsrc, answer[ARP].psrc) == (2, MAC_US.hex(":"), IP_US)
    assert (answer[ARP].hwdst, answer[ARP].pdst) == (MAC_THEM.hex(":"), IP_THEM)


def test_padding_behind_the_request_is_ignored() -> None:
    assert answer_for(arp_request() + bytes(18), MAC_US, US) == answer_for(arp_request(), MAC_US, US)


def test_requests_for_others_and_replies_are_not_answered() -> None:
    assert answer_for(arp_request("10.7.0.9"), MAC_US, US) is None
    reply = Arp(2, MAC_THEM, THEM, MAC_US, US)
    frame = raw(Ether(dst=MAC_US, src=MAC_THEM, type=0x0806)) + reply.encode()
    assert Arp.decode(frame[14:]) == reply
    assert answer_for(frame, MAC_US, US) is None


@pytest.mark.parametrize("data", [b"", b"odd", bytes(range(256)) * 8])
def test_a_ping_is_answered_with_its_data(data: bytes) -> None:
    answer = answer_for(ping(data), MAC_US, US)
    assert answer is not None
    back = Ether(answer)
    assert (back.dst, back[IP].src, back[IP].dst) == (MAC_THEM.hex(":"), IP_US, IP_THEM)
    assert (back[ICMP].type, back[ICMP].id, back[ICMP].seq) == (0, 3, 4)
    assert bytes(back[ICMP].payload) == data
    assert raw(Ether(raw(back))) == answer
    del back[ICMP].chksum, back[IP].chksum
    assert raw(back) == answer, "scapy has the same checksums"


def test_pings_to_others_are_not_answered() -> None:
    assert answer_for(ping(), mac_of_host(THEM), US) is None
    assert answer_for(ping(), MAC_US, THEM) is None


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (arp_request()[:30], "arp.too_short"),
        (arp_request()[:14] + b"\0\2" + arp_request()[16:], "arp.kind"),
        (ping()[:-1] + b"?", "icmp.checksum"),
        (ping(flags="MF"), "ip.fragment"),
    ],
)
def test_what_is_malformed_is_named(frame: bytes, reason: str) -> None:
    with pytest.raises(MalformedError) as caught:
        answer_for(frame, MAC_US, US)
    assert caught.value.reason == reason


@pytest.mark.parametrize("length", range(14, 50))
def test_short_frames_do_no_harm(length: int) -> None:
    for frame in (arp_request()[:length], ping()[:length]):
        with suppress(MalformedError):
            answer_for(frame, MAC_US, US)


def test_the_port_answers_and_passes_on_the_rest() -> None:
    inner, other = loopback_pair()
    port = AnsweringPort(inner, MAC_US, IP_US)
    rest = bytes(60)
    other.send([rest, arp_request(), arp_request()[:20], ping(), rest])
    assert port.receive() == [rest, rest]
    assert other.receive() == [answer_for(one, MAC_US, US) for one in (arp_request(), ping())]
    assert port.answered == 2
    assert port.drops == {"arp.too_short": 1}


def test_an_answer_that_does_not_fit_is_counted() -> None:
    inner, other = loopback_pair(1)
    port = AnsweringPort(inner, MAC_US, IP_US)
    port.send([bytes(60)])
    other.send([arp_request()])
    assert port.receive() == []
    assert (port.answered, port.drops) == (0, {"answer.unsent": 1})
