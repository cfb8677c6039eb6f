# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from nicemu.cm import CmEventKind, CmState, QpOffer
from nicemu.errors import UsageError
from nicemu.wire import AnsweredMessage, Dreq, Mra, Rej, RejectReason, Rep, Rtu

from .network import ADDRESSES, LOST, SERVICE, Fate, Network

REQUEST, RESPONSE = CmEventKind.CONNECT_REQUEST, CmEventKind.CONNECT_RESPONSE
ESTABLISHED, DISCONNECTED = CmEventKind.ESTABLISHED, CmEventKind.DISCONNECTED
EXIT, REJECTED = CmEventKind.TIMEWAIT_EXIT, CmEventKind.REJECTED
UNREACHABLE = CmEventKind.UNREACHABLE
KEPT = Fate()
LONG_NS = 10**12


def test_a_connection_is_made_by_req_rep_and_rtu() -> None:
    network = Network()
    active = network.connect(path_mtu=2048)
    network.run()
    (passive,) = network.passive
    assert network.messages(0) == ["Req", "Rtu"]
    assert network.messages(1) == ["Rep"]
    assert network.kinds(0) == [RESPONSE, ESTABLISHED]
    assert network.kinds(1) == [REQUEST, ESTABLISHED]
    assert active.state is passive.state is CmState.ESTABLISHED
    assert active.path_mtu == passive.path_mtu == 2048
    assert passive.remote == network.offers[0]
    assert active.remote == network.offers[1]
    assert network.events[1][0].private_data == b"hello".ljust(92, b"\0")
    assert network.events[0][0].private_data == b"welcome".ljust(196, b"\0")


def test_nobody_is_offered_more_reads_at_a_time_than_the_other_side_asks_or_answers() -> None:
    network = Network()
    network.offers = QpOffer(1, 2, responder_resources=1, initiator_depth=200), QpOffer(3, 4, 16, 16)
    active = network.connect()
    network.run()
    assert active.remote == QpOffer(3, 4, responder_resources=16, initiator_depth=1)


def test_a_connection_ends_by_dreq_and_drep_and_is_kept_for_a_while() -> None:
    network = Network()
    active = network.connect()
    network.run()
    begun_ns = network.now_ns
    active.disconnect(network.now_ns, b"bye")
    network.settle()
    network.run(begun_ns + 10_000_000)
    (passive,) = network.passive
    assert active.state is passive.state is CmState.TIMEWAIT
    assert network.events[1][-1].private_data[:3] == b"bye"
    network.run()
    assert network.now_ns - begun_ns > 4096 << 18
    assert network.kinds(0)[2:] == network.kinds(1)[2:] == [DISCONNECTED, EXIT]
    assert not network.managers[0].connections()
    assert not network.managers[1].connections()


def test_both_sides_may_disconnect_at_once() -> None:
    network = Network()
    active = network.connect()
    network.run()
    active.disconnect(network.now_ns)
    network.passive[0].disconnect(network.now_ns)
    network.settle()
    network.run()
    assert network.kinds(0)[2:] == network.kinds(1)[2:] == [DISCONNECTED, EXIT]


def test_disconnecting_twice_is_disconnecting_once() -> None:
    network = Network()
    active = network.connect()
    network.run()
    active.disconnect(network.now_ns)
    active.disconnect(network.now_ns)
    network.settle()
    network.run()
    active.disconnect(network.now_ns)
    assert network.messages(0) == ["Req", "Rtu", "Dreq"]


def test_a_request_that_is_rejected_says_why_and_what() -> None:
    network = Network(accepts=False)
    active = network.connect()
    network.run()
    assert network.kinds(0) == [REJECTED]
    assert network.events[0][0].reason == RejectReason.CONSUMER
    assert network.events[0][0].private_data[:2] == b"no"
    assert active.state is network.passive[0].state is CmState.CLOSED


def test_a_response_may_be_rejected() -> None:
    network = Network(confirms=False)
    network.connect()
    network.run()
    assert network.kinds(0) == [RESPONSE]
    assert network.kinds(1) == [REQUEST, REJECTED]
    assert network.events[1][1].private_data[:10] == b"never mind"


@pytest.mark.parametrize(
    ("fates", "messages"),
    [
        ([LOST], (["Req", "Req", "Rtu"], ["Rep"])),
        ([KEPT, LOST], (["Req", "Req", "Rtu"], ["Rep", "Rep"])),
        ([KEPT, KEPT, LOST], (["Req", "Rtu", "Rtu"], ["Rep", "Rep"])),
    ],
    ids=["REQ", "REP", "RTU"],
)
def test_a_message_that_is_lost_is_sent_again(
    fates: list[Fate], messages: tuple[list[str], list[str]]
) -> None:
    network = Network(fates)
    network.connect()
    network.run()
    assert network.kinds(0) == [RESPONSE, ESTABLISHED]
    assert network.kinds(1) == [REQUEST, ESTABLISHED]
    if fates == [KEPT, LOST]:  # either side may be first to ask again
        assert "Rep" in network.messages(1)[1:]
    else:
        assert (network.messages(0), network.messages(1)) == messages


def test_a_dreq_and_a_drep_that_are_lost_are_sent_again() -> None:
    network = Network([KEPT, KEPT, KEPT, LOST, KEPT, LOST])
    active = network.connect()
    network.run()
    active.disconnect(network.now_ns)
    network.settle()
    network.run()
    assert network.messages(0) == ["Req", "Rtu", "Dreq", "Dreq", "Dreq"]
    assert network.messages(1) == ["Rep", "Drep", "Drep"]
    assert network.kinds(0)[2:] == network.kinds(1)[2:] == [DISCONNECTED, EXIT]


def test_a_request_that_nobody_answers_is_given_up_after_its_retries_and_the_peer_is_told() -> None:
    network = Network([LOST] * 16)
    network.connect()
    network.run()
    assert network.messages(0) == ["Req"] * 16 + ["Rej"]
    assert network.kinds(0) == [UNREACHABLE]
    assert network.sent[-1][1].reason == RejectReason.TIMEOUT  # type: ignore[union-attr]


def test_a_response_that_nobody_confirms_is_given_up_and_the_peer_is_told() -> None:
    network = Network(confirms=None)
    active = network.connect()
    network.run()
    assert network.kinds(0) == [RESPONSE, REJECTED]
    assert network.messages(1) == ["Rep"] * 16 + ["Rej"]
    assert network.kinds(1) == [REQUEST, UNREACHABLE]
    assert active.state is CmState.CLOSED


def test_a_request_that_the_application_leaves_lying_ends_on_both_sides() -> None:
    network = Network(accepts=None)
    network.connect()
    network.run()
    assert network.kinds(0) == [UNREACHABLE]
    assert network.kinds(1)[0] is REQUEST
    assert network.kinds(1)[1] in (REJECTED, UNREACHABLE)


def test_a_peer_that_gives_up_before_we_answer_takes_its_request_back() -> None:
    network = Network(accepts=None)
    network.connect()
    network.run(10**9 * 60)
    assert network.kinds(1) == [REQUEST, REJECTED]
    with pytest.raises(UsageError, match="can be accepted when it is 'REQ received, not answered yet'"):
        network.passive[0].accept(network.offers[1], network.now_ns)


def test_an_mra_gives_the_passive_side_more_time() -> None:
    network = Network(accepts=None)
    network.connect()
    network.run(100_000_000)
    (passive,) = network.passive
    passive.delay(22, network.now_ns)  # 17 s
    network.settle()
    network.run(10 * 10**9)
    assert network.messages(0) == ["Req"]
    passive.accept(network.offers[1], network.now_ns)
    network.settle()
    network.run()
    assert network.kinds(1) == [REQUEST, ESTABLISHED]


def test_a_req_that_comes_again_gets_the_mra_again() -> None:
    network = Network([Fate((1_000_000, 50_000_000))], accepts=None)
    network.connect()
    network.run(10_000_000)
    network.passive[0].delay(22, network.now_ns)
    network.settle()
    network.run(100_000_000)
    assert network.messages(1) == ["Mra", "Mra"]


def test_an_mra_for_a_response_holds_back_the_next_one() -> None:
    network = Network(confirms=None)
    active = network.connect()
    network.run(50_000_000)
    (passive,) = network.passive
    mra = Mra(
        local_communication_id=active.local_id,
        remote_communication_id=passive.local_id,
        answered_message=AnsweredMessage.REP,
        service_timeout=21,
    )
    network.inject(1, mra)
    network.run(8 * 10**9)
    assert network.messages(1) == ["Rep"]


def test_data_that_arrive_before_the_rtu_establish_the_connection() -> None:
    network = Network([KEPT, KEPT, LOST])
    network.connect()
    network.run(50_000_000)
    (passive,) = network.passive
    assert passive.state is CmState.REP_SENT
    passive.communication_established()
    passive.communication_established()
    network.settle()
    network.run()
    assert network.kinds(1) == [REQUEST, ESTABLISHED]
    assert network.messages(1) == ["Rep"]


def test_an_rtu_that_work_has_overtaken_is_nothing_amiss() -> None:
    network = Network([KEPT, KEPT, Fate((500_000_000,))])
    network.connect()
    network.run(50_000_000)
    (passive,) = network.passive
    passive.communication_established()
    network.run()
    assert network.messages(0) == ["Req", "Rtu"]
    assert network.kinds(1) == [REQUEST, ESTABLISHED]
    assert not network.drops[1]


def test_a_dreq_that_overtakes_the_rtu_ends_the_connection() -> None:
    network = Network([KEPT, KEPT, Fate((500_000_000,))])
    active = network.connect()
    network.run(50_000_000)
    active.disconnect(network.now_ns)
    network.settle()
    network.run()
    assert network.kinds(1) == [REQUEST, DISCONNECTED, EXIT]
    assert network.drops[1] == {"cm.state": 1}


def test_a_dreq_for_another_queue_pair_is_not_believed() -> None:
    network = Network()
    active = network.connect()
    network.run()
    (passive,) = network.passive
    ids = (passive.local_id, active.local_id)
    network.inject(0, Dreq(local_communication_id=ids[0], remote_communication_id=ids[1], remote_qpn=0x99))
    assert active.state is CmState.ESTABLISHED
    assert network.drops[0] == {"cm.state": 1}


def test_an_established_connection_is_not_rejected_unless_the_peer_does_not_know_it() -> None:
    network = Network()
    active = network.connect()
    network.run()
    (passive,) = network.passive
    rej = Rej(
        local_communication_id=passive.local_id,
        remote_communication_id=active.local_id,
        answered_message=AnsweredMessage.NONE,
        reason=RejectReason.CONSUMER,
    )
    network.inject(0, rej)
    assert active.state is CmState.ESTABLISHED
    network.inject(0, replace(rej, reason=RejectReason.INVALID_COMMUNICATION_ID))
    assert network.kinds(0)[-1] is DISCONNECTED


def test_what_comes_late_finds_no_connection_and_the_sender_learns_of_it() -> None:
    network = Network()
    ids = {"local_communication_id": 7, "remote_communication_id": 9}
    for message in (
        Rep(**ids, local_qpn=1, starting_psn=2),  # type: ignore[arg-type]
        Rtu(**ids),  # type: ignore[arg-type]
        Dreq(**ids, remote_qpn=1),  # type: ignore[arg-type]
    ):
        network.inject(1, message)
    assert network.messages(1) == ["Rej", "Rej", "Drep"]
    assert all(m.remote_communication_id == 7 for _, m in network.sent)  # type: ignore[union-attr]
    assert network.drops[1] == {"cm.unknown_connection": 3}


def test_wrong_use_is_refused_in_words() -> None:
    network = Network(accepts=None)
    active = network.connect()
    network.run(10_000_000)
    (passive,) = network.passive
    with pytest.raises(UsageError, match="can be confirmed when it is 'REP received, not confirmed yet'"):
        active.confirm()
    with pytest.raises(UsageError, match="it cannot be disconnected"):
        passive.disconnect(network.now_ns)
    with pytest.raises(UsageError, match="197 bytes of private data; a Rep has room for 196"):
        passive.accept(network.offers[1], network.now_ns, bytes(197))
    with pytest.raises(UsageError, match="149 bytes of private data; a Rej has room for 148"):
        passive.reject(bytes(149))
    assert passive.state is CmState.REQ_RCVD
    with pytest.raises(UsageError, match="path_mtu is 1000; allowed are 256"):
        network.managers[0].connect(ADDRESSES[1], SERVICE, network.offers[0], 0, path_mtu=1000)
    with pytest.raises(UsageError, match="listened to already"):
        network.managers[1].listen(SERVICE)
    with pytest.raises(UsageError, match="backlog is 0; it is a whole number from 1"):
        network.managers[0].listen(SERVICE, 0)
