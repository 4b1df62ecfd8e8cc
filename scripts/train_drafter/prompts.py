"""Chat prompts for the training text: templates x topics, and tasks over given texts. Everything is drawn from one seeded generator."""

import random

TOPICS = """the water cycle|photosynthesis|black holes|volcanoes|the Roman Empire|the French Revolution|the history of bread|jazz music|chess|
learning a new language|healthy breakfasts|home gardening|composting|electric cars|solar panels|wind power|the human heart|vaccines|sleep|
stress at work|job interviews|writing a CV|public speaking|time management|saving money|compound interest|inflation|small businesses|
online privacy|passwords|the internet|search engines|machine learning|neural networks|sorting algorithms|recursion|databases|version control|
unit tests|HTTP requests|prime numbers|fractions|the Pythagorean theorem|probability|gravity|magnets|electricity|the periodic table|acids and bases|
DNA|evolution|dinosaurs|whales|honey bees|cats|dogs|horses|birds in winter|rain forests|deserts|coral reefs|climate change|recycling|
plastic waste|clean water|earthquakes|the moon|Mars|telescopes|space stations|airplanes|steam engines|bicycles|trains in Japan|sailing|
mountain climbing|running a marathon|yoga|swimming|football|basketball|cooking pasta|baking a cake|coffee|green tea|chocolate|cheese|
a vegetable soup|spices|Italian food|Mexican food|travelling alone|a weekend in Paris|a trip to Egypt|camping|a city in winter|a small village|
an old lighthouse|a lost key|a talking cat|a robot that learns to paint|two brothers|a brave girl|a clockmaker|a dragon who is afraid of fire|
a detective in a small town|a letter that came too late|a garden on the roof|a ship in a storm|a secret library|a teacher and her students|
friendship|kindness|courage|patience|honesty|teamwork|leadership|creativity|curiosity|memory|reading books|poetry|painting|photography|film music|
the piano|the guitar|theatre|museums|architecture|bridges|the Great Wall of China|ancient Egypt|Vikings|the Silk Road|the printing press|
the industrial revolution|the first computer|Marie Curie|Albert Einstein|Leonardo da Vinci|Ada Lovelace|democracy|elections|human rights|
school uniforms|homework|remote work|social media|video games|artificial intelligence at school|robots in hospitals|self-driving cars|
public transport|city parks|noise in cities|buying a used car|renting a flat|moving to a new city|a broken laptop|a slow computer|a wedding|
a birthday party|a gift for a friend|a neighbour who is loud|a lost parcel|a late train|a hotel that was dirty""".replace("\n", "").split("|")

QUESTIONS = """What is {t}?|Explain {t} to a child.|Explain {t} in simple words.|Why is {t} important?|How does {t} work?|What should everyone know about {t}?|
Can you tell me something about {t}?|I have to write a report on {t}. Where do I start?|What are common mistakes people make with {t}?|
Give me a detailed explanation of {t}.|What is the history of {t}?|Compare {t} with {u}.|What do {t} and {u} have in common?|
Tell me three surprising facts about {t}.|What are the advantages and disadvantages of {t}?|Is {t} good or bad? Give reasons.""".replace("\n", "").split("|")

LISTS = """List ten facts about {t}.|Give me five tips about {t}.|Make a numbered list of seven ideas around {t}.|Write a checklist for {t}.|
Give me a step-by-step guide to {t}.|Make a table of contents for a book about {t}.|Write eight quiz questions about {t} with answers.|
Name six books or films about {t} and say why they fit.|Make a weekly plan about {t}.""".replace("\n", "").split("|")

WRITING = """Write a short story about {t}.|Write a long story about {t} and {u}.|Write a poem about {t}.|Write a dialogue about {t} between two friends.|
Write an essay about {t}.|Write a blog post about {t}.|Write a newspaper article about {t}.|Write a speech about {t}.|Write a product description around {t}.|
Write a song about {t}.|Write a fairy tale with {t} in it.|Write a diary entry of somebody who thinks about {t}.|Describe {t} in one paragraph.|
Write an introduction and a conclusion for a text about {t}.""".replace("\n", "").split("|")

LETTERS = """Write a polite letter about {t}.|Write an email to my boss about {t}.|Write a complaint about {t}.|Write a thank-you note about {t}.|
Write an invitation to an evening about {t}.|Write a message to a friend about {t}.|Write a cover letter for a job that has to do with {t}.""".replace(
    "\n", "").split("|")

CODE_TASKS = """Write a Python function that {c}.|Write a JavaScript function that {c}.|Explain step by step how a program {c}.|
Write a Python class that {c}, with comments.|Write a small program that {c} and show how to use it.""".replace("\n", "").split("|")

CODE_JOBS = """reverses a string|checks whether a number is prime|counts the words of a text|sorts a list of numbers|finds the largest value of a list|
reads a file line by line|computes the factorial of a number|computes Fibonacci numbers|removes duplicates from a list|merges two sorted lists|
checks whether a word is a palindrome|converts Celsius to Fahrenheit|keeps a list of tasks|models a bank account|parses a date|
counts how often each letter occurs|finds the common elements of two lists|validates an email address|computes the average of a list|
searches a sorted list|transposes a matrix|makes a multiplication table|rolls two dice|keeps a phone book|groups words by length""".replace("\n", "").split("|")

TEXT_TASKS = """Summarize this text:\n\n{x}|Summarize this text in one sentence:\n\n{x}|Rewrite this text in simpler words:\n\n{x}|
Write down the main points of this text as a list:\n\n{x}|Repeat this text word for word:\n\n{x}|Correct this text and write it again:\n\n{x}|
What is this text about?\n\n{x}|Continue this text:\n\n{x}|Make this text more formal:\n\n{x}|Answer a few questions about this text, which you ask yourself:\n\n{x}""".replace(
    "|\n", "|").split("|")

TEXTS = """The market opens at six in the morning. Farmers from the valley bring apples, cabbages and eggs, and the baker sells warm rolls from a cart. By noon most stalls are empty, and the square belongs to the pigeons again.|
Our team moved to the new office in March. The rooms are brighter and the meeting area is larger, but the train station is further away, so many people now work from home on Fridays. A survey in June showed that most are content with the change.|
A battery stores energy in chemical form. When it is connected to a circuit, a reaction moves electrons from one side to the other, and the current can drive a lamp or a motor. Charging turns the reaction around. After many cycles the materials wear out.|
The old bridge was closed after the flood. Engineers found cracks in two of its pillars, and the council had to choose between a repair and a new bridge. After long meetings they decided to repair it, because the town loves its stone arches.|
Anna wanted to learn the violin when she was sixty. Her neighbours smiled at first, and then they listened. Two years later she played at the summer concert, a little slowly, with her granddaughter beside her at the piano.|
Bees tell each other where flowers are by dancing. The angle of the dance shows the direction of the sun, and its length shows the distance. Other bees follow the dancer in the dark hive and then fly out to find the place.|
The museum lends bicycles to its visitors. A ticket costs twelve euros and includes a map of the old harbour. Children under ten enter free. The museum is closed on Mondays and on the first of January.|
In the second quarter, sales rose by four percent while costs stayed the same. The online shop did best; two of the stores in the north lost customers. The board expects a slower summer and plans to open one more store in autumn.|
def total(prices, tax):\n    sum = 0\n    for price in prices:\n        sum += price\n    return sum + sum * tax|
function greet(name) {\n  if (name === "") {\n    return "Hello, stranger!";\n  }\n  return "Hello, " + name + "!";\n}|
class Counter:\n    def __init__(self):\n        self.value = 0\n\n    def add(self, amount):\n        self.value += amount\n        return self.value|
- wake up at seven\n- feed the cat\n- water the tomatoes\n- call the dentist\n- buy bread and milk\n- finish the report""".replace("|\n", "|").split("|")

CODE_TEXT_TASKS = """Write this again with better names:\n\n{x}|Add comments to this:\n\n{x}|Explain this:\n\n{x}|Find a mistake in this, or say that there is none:\n\n{x}|
Write this again and change nothing:\n\n{x}""".replace("|\n", "|").split("|")

SYSTEMS = [None, None, None, None, "You are a helpful assistant.", "You are a patient teacher.", "Answer briefly.", "You are a writer who loves details."]

# Of 20 prompts, how many are of which sort.
WEIGHTED_SORTS = ["question"] * 5 + ["list"] * 3 + ["writing"] * 5 + ["letter"] * 2 + ["code"] * 2 + ["text"] * 2 + ["code text"]


def prompt(random_source: random.Random) -> list[dict[str, str]]:
    """The messages of one chat request."""
    pick = random_source.choice
    sort = pick(WEIGHTED_SORTS)
    topic, other = random_source.sample(TOPICS, 2)
    if sort == "code":
        content = pick(CODE_TASKS).format(c=pick(CODE_JOBS))
    elif sort == "text":
        content = pick(TEXT_TASKS).format(x=pick(TEXTS))
    elif sort == "code text":
        content = pick(CODE_TEXT_TASKS).format(x=pick(TEXTS[8:]))
    else:
        templates = {"question": QUESTIONS, "list": LISTS, "writing": WRITING, "letter": LETTERS}[sort]
        content = pick(templates).format(t=topic, u=other)
    system = pick(SYSTEMS)
    messages = [{"role": "user", "content": content}]
    return messages if system is None else [{"role": "system", "content": system}, *messages]
